"""A kernel that may be the best of its session, timed in the same rounds as the best node.

Two figures over a baseline that were taken minutes apart do not tell near nodes apart. So the best
node keeps its place unless a new one is clearly ahead of it, or certainly faster head-to-head.
"""

from __future__ import annotations

from harness.types import Candidate, ComparisonRequest, Evaluation
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.search import Meeting, Node, Tree, apart, interval

from . import evaluating
from .places import EvaluationPlace
from .shared import Shared

# of what a comparison on request spends on a pair that is not decided: most children are no better
EFFORT = 0.5
# of the time that the session has left, at the most: contenders meet at its end in any case
SHARE = 0.1


def rival(tree: Tree, evaluation: Evaluation, left_s: float) -> Node | None:
    """The best node, where a fresh evaluation may be better as far as both figures say; None where
    they are apart or the new one is not above what is known of the best, where a node of the same
    text is there already, or where the session, which has `left_s` seconds, has not the time. Two
    kernels at half the effort take about twice as long as one did."""
    best, own = tree.best(), interval(evaluation.cases)
    if (
        best is None
        or own is None
        or (evaluation.fitness or 0.0) <= tree.known[best.id]
        or evaluation.status != "correct"
        or not evaluation.eligible
        or evaluation.seconds > SHARE * left_s
        or any(signal.name == "timed_briefly" for signal in evaluation.signals)
        or any(node.candidate == evaluation.candidate for node in tree.nodes)
        or apart(own, best.span)
    ):
        return None
    return best


async def hold(
    shared: Shared, place: EvaluationPlace, candidate: Candidate, best: Node, progress: Progress
) -> Meeting:
    """The candidate against the best node; the session pays. Where no comparison comes about, the
    meeting says why."""
    store = await shared.store()
    other = await shared.thread(store.candidates.get, best.candidate)
    progress(ProgressEvent("contest", f"timing it against {best.id}, the best so far", 0.9))
    request = ComparisonRequest((other, candidate), place.policy, EFFORT)
    try:
        found, _ = await evaluating.compared(
            shared, place.task, request, place.target, place.executor, place.session, _silent
        )
    except (EvaluatorUnavailable, TaskRefused, Unavailable) as error:
        return Meeting(best.id, note=error.message)
    duel = found.duel(1, 0)
    if duel is not None:
        return Meeting(best.id, duel.verdict, duel.ratio, duel.interval)
    of_best, own = found.evaluations
    if own.status != "correct":
        return Meeting(best.id, "inconclusive", note=f"it was {own.status} in that run")
    return Meeting(best.id, note=f"{best.id} was {of_best.status} in that run")


def _silent(event: ProgressEvent) -> None:
    """Stages begin anew in a comparison, and progress only grows."""
