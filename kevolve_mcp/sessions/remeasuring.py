"""Further measurements of a kernel before it becomes a node: more processes if its interval is too
wide, and if it may be the best of its session, a head-to-head with the best node.

Two figures over a baseline that were measured minutes apart cannot tell close nodes apart. So the
best node keeps its place unless a new one is clearly ahead, or certainly faster head-to-head.
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

# fraction of the effort that a requested comparison spends on an undecided pair: most children are
# no better
MEETING_EFFORT = 0.5
# largest fraction of the session's remaining time: contenders are timed at its end in any case
MEETING_SHARE = 0.1


def rival(tree: Tree, evaluation: Evaluation, left_s: float) -> Node | None:
    """Return the best node if a fresh evaluation may be better by both figures. None if their
    intervals are disjoint, the new one is not above the standing of the best, a node has the same
    text, or the `left_s` seconds of the session are too short. Two kernels at half the effort take
    about twice as long as one did."""
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
    """Time the candidate against the best node; the session pays. If there is no comparison, the
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


# upper over lower end of an interval from which it is too wide to judge a node
WIDE = 1.4
WIDE_AROUND_ONE = 1.2  # the same for an interval that contains 1
# total effort for one kernel, as a multiple of its first, usual measurement
MOST_PROCESSES = 5.0
# and as a fraction of the session's remaining time, which other kernels need, too
PROCESSES_SHARE = 0.05
EFFORTS = (2.0, 3.0, 5.0)  # total processes after each step, as a multiple of the usual number
log = logging.getLogger(__name__)


def wanted(evaluation: Evaluation, best: float) -> bool:
    """Return whether more processes are worth their time: the interval is too wide, the kernel may
    be the best, and fewer than the most processes were measured. best: the standing of the best
    node, 0 without one."""
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
    """Add samples of more processes, step by step, until the kernel's interval is narrow enough or
    the time is used up, and return its evaluation. The session pays, which has `left_s` seconds. If
    the evaluator fails meanwhile, the existing samples remain."""
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
            ProgressEvent("time", f"its interval is too wide: {missing} more fresh processes", 0.9)
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
    """Drop progress: stages begin again with each step, but progress must only grow."""
