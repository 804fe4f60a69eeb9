"""Who does the work: the candidate's own kernels, the framework, or something else. Needed only
where a policy cares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...targets import DeviceFamily
from ...types import Case, Signal
from ...workers import operators
from ..correctness import oracle
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts
from ..exchange.input_sets import InputSet
from ..exchange.slots import Slots
from ..failures import Failure
from ..processes import answers
from ..processes.worker import Worker
from ..run import LOAD_SECONDS, Run, call_seconds, prepare, start_worker

METERED = 5  # calls
# of a call: more than wrappers, allocation and small host code take
HIDDEN_US, HIDDEN_SHARE = 300.0, 0.5
MOST_LAUNCHES = 20  # that are waited for, and take their time on the host


def note_library(run: Run, counted: Any) -> None:
    """Operators of the framework that computed something (the worker's own count, so it informs
    only)."""
    for name, (calls, _, _) in answers.counts(counted).items():
        if not operators.is_free(name):
            run.library[name] = run.library.get(name, 0) + calls


def police(run: Run) -> None:
    """After verification: own kernels ran, and no operator of the framework computed."""
    if run.request.policy.library_calls == "allow":
        return
    if not run.launches:
        text = (
            "no kernel of its own ran: the candidate leaves the work to the framework, or does it "
            "in Python"
        )
        _refuse_or_flag(run, Signal("policy.no_native_kernel", text))
    elif run.library:
        listed = ", ".join(sorted(run.library)[:6])
        _refuse_or_flag(
            run, Signal("policy.library_calls", f"the framework computes a part: {listed}")
        )


def examine(run: Run) -> None:
    """In a fresh worker, for the case that takes longest: the share of a call that own kernels
    take, and whether outputs stay right when these kernels are silenced, on inputs that this
    process has not seen."""
    if run.request.policy.library_calls == "allow" or not run.launches:
        return
    case = max(run.cases, key=lambda c: run.results[c.name].latency_us or 0.0)
    pool = run.task.pool(case.name)
    known, unseen = [
        held for state, held in pool.checking if state == 0 and held.family != "special"
    ][:2]
    worker = start_worker(run, poison=True)
    try:
        slots = prepare(run, worker, pool, 1)
        share, hidden_us, launches = _meter(run, case, worker, slots, known)
        run.results[case.name] = replace(run.results[case.name], own_kernel_fraction=share)
        if hidden_us > launch_us(run.task.family, launches) and share < 1 - HIDDEN_SHARE:
            text = (
                f"case {case.name}: own kernels take {share:.0%} of a call and the framework does "
                f"not explain the rest ({hidden_us:.0f} us): it is computed elsewhere in the "
                "process"
            )
            _refuse_or_flag(run, Signal("policy.host_work", text))
        if _right_when_silenced(run, case, worker, slots, unseen):
            text = (
                f"case {case.name}: with its own kernels silenced the outputs stay right: the "
                "kernels are a decoy"
            )
            _refuse_or_flag(run, Signal("policy.decoy_kernel", text))
    finally:
        worker.close()


def launch_us(family: DeviceFamily, launches: int) -> float:
    """Microseconds of a call that wrapper code and launching may take on the host."""
    return HIDDEN_US + family.LAUNCH_US * min(launches, MOST_LAUNCHES)


def _meter(
    run: Run, case: Case, worker: Worker, slots: Slots, held: InputSet
) -> tuple[float, float, int]:
    """(share of own kernels, microseconds that neither they nor the framework explain, launches) of
    the call of which least is unexplained: other programs only ever add."""
    seconds = call_seconds(case, 1)

    def measure() -> tuple[float, float, int]:
        # compiles, tunes, allocates
        bursts.run(worker, slots, case.name, [held], [0], seconds, record=True)
        worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="meter")
        found = []
        for _ in range(METERED):
            result = bursts.run(worker, slots, case.name, [held], [0], seconds, record=True)
            launches, own = worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="meter").values[:2]
            library = (
                sum(ns for _, _, ns in answers.counts(result.data).values())
                if run.task.family.SYNCHRONOUS
                else 0
            )
            total = max(1, result.inside_ns - library)
            found.append((max(0, total - own) / 1e3, min(1.0, own / total), launches))
        worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="silence")
        hidden_us, share, launches = min(found)
        return share, hidden_us, launches

    return run.guard(f"case {case.name}, metered", worker, measure)


def _right_when_silenced(
    run: Run, case: Case, worker: Worker, slots: Slots, unseen: InputSet
) -> bool:
    pool = run.task.pools[case.name]
    try:
        bursts.run(worker, slots, case.name, [unseen], [0], call_seconds(case, 1))
    except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered):
        return False  # it needs what its kernels give
    tensors = slots.tensors(pool.outputs, 0)
    known = zip(tensors, unseen.expected, unseen.allowed, unseen.framework, strict=True)
    return all(
        oracle.right(own, want, allowed, framework) for own, want, allowed, framework in known
    )


def _refuse_or_flag(run: Run, found: Signal) -> None:
    if run.request.policy.library_calls == "reject":
        raise Failure(
            "invalid", f"{found.message}; the session's policy does not allow it", (found,)
        )
    run.signals.append(found)
