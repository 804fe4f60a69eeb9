"""More processes for a kernel whose interval says nothing, before it becomes a node."""

from __future__ import annotations

import logging
from dataclasses import replace

from harness.types import Evaluation
from kevolve_mcp import api
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.search import interval
from kevolve_mcp.store import StoredEvaluation

from . import evaluating
from .evaluating import USUAL_PROCESSES, EvaluationOrder, Fresh
from .shared import Shared

# upper end of an interval over its lower end, above which it says nothing of a node
WIDE = 1.4
WIDE_AROUND_ONE = 1.2  # the same where it does not even say whether the baseline was beaten
# all that is spent on one kernel, as a multiple of its first, usual measurement
MOST = 5.0
# and of the time that the session has left: other kernels need it, too
SHARE = 0.05
EFFORTS = (2.0, 3.0, 5.0)  # processes in all after each further step, times the usual number
log = logging.getLogger(__name__)


def wanted(evaluation: Evaluation, best: float) -> bool:
    """Whether more processes are worth their time: the interval is useless, the kernel may be the
    best as far as it says, and fewer than the most were measured. best: what is known of the best
    node's F, 0 without one."""
    found = interval(evaluation.cases) if evaluation.status == "correct" else None
    if found is None or found[0] <= 0 or found[1] < best:
        return False
    limit = WIDE_AROUND_ONE if found[0] < 1 < found[1] else WIDE
    measured = api.processes(evaluation)
    return found[1] / found[0] > limit and 0 < measured < USUAL_PROCESSES * EFFORTS[-1]


async def sharpened(
    shared: Shared,
    order: EvaluationOrder,
    found: StoredEvaluation | Fresh,
    left_s: float,
    progress: Progress,
) -> StoredEvaluation:
    """The kernel with samples of more processes joined to those that there are, step by step, until
    its interval says something or the time is used up. The session pays, which has `left_s`
    seconds. An evaluator that fails meanwhile leaves it at what there is."""
    kept = await evaluating.keep(shared, order, found)
    usual = kept.evaluation.seconds * USUAL_PROCESSES / api.processes(kept.evaluation)
    took, pace = kept.evaluation.seconds, usual / USUAL_PROCESSES
    most = min(MOST * usual, took + SHARE * left_s)
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
    """Stages begin anew with each step, and progress only grows."""
