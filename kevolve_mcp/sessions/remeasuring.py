"""What is measured besides of a kernel before it becomes a node: more processes where its interval
says nothing, and where it may be the best of its session, the same rounds as the best node.

Two figures over a baseline that were taken minutes apart do not tell near nodes apart. So the best
node keeps its place unless a new one is clearly ahead of it, or certainly faster head-to-head.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from harness.types import Candidate, ComparisonRequest, Evaluation
from kevolve_mcp import api
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.search import Meeting, Node, Tree, apart, interval
from kevolve_mcp.store import StoredEvaluation

from . import evaluating
from .evaluating import USUAL_PROCESSES, EvaluationOrder, Fresh
from .places import EvaluationPlace
from .shared import Shared

# of what a comparison on request spends on a pair that is not decided: most children are no better
MEETING_EFFORT = 0.5
# of the time that the session has left, at the most: contenders meet at its end in any case
MEETING_SHARE = 0.1


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
        or evaluation.seconds > MEETING_SHARE * left_s
        or any(signal.name == "timed_briefly" for signal in evaluation.signals)
        or any(node.candidate == evaluation.candidate for node in tree.nodes)
        or apart(own, best.span)
    ):
        return None
    return best


async def meet(
    shared: Shared, place: EvaluationPlace, candidate: Candidate, best: Node, progress: Progress
) -> Meeting:
    """The candidate against the best node; the session pays. Where no comparison comes about, the
    meeting says why."""
    store = await shared.store()
    other = await shared.thread(store.candidates.get, best.candidate)
    progress(ProgressEvent("contest", f"timing it against {best.id}, the best so far", 0.9))
    request = ComparisonRequest((other, candidate), place.policy, MEETING_EFFORT)
    try:
        comparison, _ = await evaluating.compared(
            shared, place.task, request, place.target, place.executor, place.session, _silent
        )
    except (EvaluatorUnavailable, TaskRefused, Unavailable) as error:
        return Meeting(best.id, note=error.message)
    duel = comparison.duel(1, 0)
    if duel is not None:
        return Meeting(best.id, duel.verdict, duel.ratio, duel.interval)
    of_best, own = comparison.evaluations
    if own.status != "correct":
        return Meeting(best.id, "inconclusive", note=f"it was {own.status} in that run")
    return Meeting(best.id, note=f"{best.id} was {of_best.status} in that run")


# upper end of an interval over its lower end, above which it says nothing of a node
WIDE = 1.4
WIDE_AROUND_ONE = 1.2  # the same where it does not even say whether the baseline was beaten
# all that is spent on one kernel, as a multiple of its first, usual measurement
MOST_PROCESSES = 5.0
# and of the time that the session has left: other kernels need it, too
PROCESSES_SHARE = 0.05
EFFORTS = (2.0, 3.0, 5.0)  # processes in all after each further step, times the usual number
log = logging.getLogger(__name__)


def wanted(evaluation: Evaluation, best: float) -> bool:
    """Whether more processes are worth their time: the interval is useless, the kernel may be the
    best as far as it says, and fewer than the most were measured. best: what is known of the best
    node's F, 0 without one."""
    span = interval(evaluation.cases) if evaluation.status == "correct" else None
    if span is None or span[0] <= 0 or span[1] < best:
        return False
    limit = WIDE_AROUND_ONE if span[0] < 1 < span[1] else WIDE
    measured = api.processes(evaluation)
    return span[1] / span[0] > limit and 0 < measured < USUAL_PROCESSES * EFFORTS[-1]


async def sharpened(
    shared: Shared,
    order: EvaluationOrder,
    first: StoredEvaluation | Fresh,
    left_s: float,
    progress: Progress,
) -> StoredEvaluation:
    """The kernel with samples of more processes joined to those that there are, step by step, until
    its interval says something or the time is used up. The session pays, which has `left_s`
    seconds. An evaluator that fails meanwhile leaves it at what there is."""
    kept = await evaluating.keep(shared, order, first)
    usual = kept.evaluation.seconds * USUAL_PROCESSES / api.processes(kept.evaluation)
    took, pace = kept.evaluation.seconds, usual / USUAL_PROCESSES
    most = min(MOST_PROCESSES * usual, took + PROCESSES_SHARE * left_s)
    for effort in EFFORTS:
        measured = api.processes(kept.evaluation)
        missing = round(USUAL_PROCESSES * effort) - measured
        if not wanted(kept.evaluation, order.request.best):
            break
        if missing <= 0:
            continue
        if took + missing * pace > most:
            break
        progress(
            ProgressEvent(
                "time", f"its interval says nothing yet: {missing} more fresh processes", 0.9
            )
        )
        more = replace(order, request=replace(order.request, effort=effort))
        try:
            kept, _ = await evaluating.stored(shared, more, _silent)
        except (EvaluatorUnavailable, Unavailable) as error:
            log.warning("%s is not measured any longer: %s", kept.id, error)
            break
        took += kept.evaluation.seconds
        pace = kept.evaluation.seconds / missing
    return kept


def _silent(event: ProgressEvent) -> None:
    """Stages begin anew with each step and in a comparison, and progress only grows."""
