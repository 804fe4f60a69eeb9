"""Autotuned kernels without a device: every configuration that the autotuner could choose is
verified, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...types import Case
from ..candidate_workers import LOAD_SECONDS, set_state
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..processes.answers import printable
from ..processes.worker import Worker
from ..stage_context import StageContext

MOST = 16  # configurations of one kernel in each case, since interpreting is slow
_LABEL = 200  # the most characters of a configuration's name, which the candidate chooses


def check(
    context: StageContext,
    case: Case,
    pool: CasePool,
    worker: Worker,
    judge: Callable[[InputSet, str], None],
) -> dict[str, Any]:
    """Verify the other configurations of every kernel on one input set each; the first one was
    checked on all inputs before. judge: makes and judges one call on a set, given a description.
    Returns by kernel the configurations that were verified and those that were not; {} if there are
    none to choose from. Raises Failure naming the configuration."""
    kernels = _kernels(_configure(context, worker, 1))
    most = max((len(labels) for labels in kernels.values()), default=0)
    _, input_set = pool.checking[0]
    context.guard(f"case {case.name}", worker, lambda: set_state(worker, pool, 0))
    for number in range(1, min(most, MOST)):
        context.tell("verify", f"case {case.name}, configuration {number + 1} of {most}", 0.4)
        names = ", ".join(
            f"{kernel}: {labels[number % len(labels)]}" for kernel, labels in kernels.items()
        )
        if number > 1:
            _configure(context, worker, number)
        judge(input_set, f"configuration {number + 1} ({names})")
    _configure(context, worker, 0)
    return {
        kernel: {"verified": labels[:MOST], "not_verified": labels[MOST:]}
        for kernel, labels in kernels.items()
    }


def _configure(context: StageContext, worker: Worker, number: int) -> Any:
    def ask() -> Any:
        return worker.data(worker.ask("configure", seconds=LOAD_SECONDS, number=number))

    return context.guard("choosing a configuration", worker, ask)


def _kernels(reply: Any) -> dict[str, list[str]]:
    """Return the configurations that the candidate's process reports. Only the form is checked,
    since they only tell how much is verified."""
    if not isinstance(reply, dict):
        return {}
    return {
        printable(name)[:_LABEL]: [printable(str(label)[:_LABEL]) for label in labels]
        for name, labels in reply.items()
        if isinstance(labels, list) and labels
    }
