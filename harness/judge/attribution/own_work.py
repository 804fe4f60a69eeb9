"""Finds out what does the work: the candidate's own kernels, the framework, or something else. Done
only where the policy requires it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...targets import DeviceFamily
from ...types import Case, CaseResult, Policy, Signal
from ...workers import operators
from ..candidate_workers import LOAD_SECONDS, call_seconds, prepare, start_worker
from ..correctness import oracle
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts
from ..exchange.input_sets import InputSet
from ..exchange.slots import BurstResult, Slots
from ..failures import Failure
from ..processes import answers
from ..processes.worker import Worker
from ..stage_context import StageContext

METERED = 5  # calls that are metered
# unexplained time of a call, beyond an empty call and what wrappers, allocation and small host code
# take; on a device also what the framework does there on the host, which is not deducted
HIDDEN_US, DEVICE_HIDDEN_US, HIDDEN_SHARE = 150.0, 300.0, 0.5
MOST_LAUNCHES = 20  # the most launches whose time on the host is allowed for


def library_calls(reply: Any) -> dict[str, int]:
    """Return the framework's operators that computed something, with their calls. The worker counts
    them itself, so this is only information."""
    counts = answers.read_counts(reply).items()
    return {name: calls for name, (calls, _, _) in counts if not operators.is_free(name)}


def refuse(policy: Policy, signals: Sequence[Signal]) -> None:
    """Raise Failure where the policy does not allow what was found."""
    if signals and policy.library_calls == "reject":
        text = f"{signals[0].message}; the session's policy does not allow it"
        raise Failure("invalid", text, (signals[0],))


def policy_signals(policy: Policy, launches: int, library: Mapping[str, int]) -> list[Signal]:
    """Return signals after verification: no own kernel ran, or an operator of the framework
    computed something."""
    if policy.library_calls == "allow":
        return []
    if not launches:
        text = (
            "no kernel of its own ran: the candidate leaves the work to the framework or does it "
            "in Python"
        )
        return [Signal("policy.no_native_kernel", text)]
    if library:
        text = f"the framework computes a part: {', '.join(sorted(library)[:6])}"
        return [Signal("policy.library_calls", text)]
    return []


@dataclass(frozen=True)
class Examination:
    """The findings of `examine`."""

    result: CaseResult
    """The result of the examined case, with the share of own kernels."""
    signals: list[Signal]


def examine(
    context: StageContext, results: Mapping[str, CaseResult], launches: int
) -> Examination | None:
    """Measure, in a fresh worker and for the longest case, the share of a call that own kernels
    take, and test whether outputs stay right when these kernels are silenced, on inputs that the
    process has not seen. None where the policy does not require it, or no own kernel ran
    (`launches`)."""
    policy, signals = context.request.policy, list[Signal]()
    if policy.library_calls == "allow" or not launches:
        return None
    case = max(context.cases, key=lambda c: results[c.name].latency_us or 0.0)
    pool = context.task.pool(case.name)
    metered_set, unseen_set = [
        input_set
        for state, input_set in pool.checking
        if state == 0 and input_set.family != "special"
    ][:2]
    worker = start_worker(context, poison=True)
    try:
        slots = prepare(context, worker, pool, 1)
        share, hidden_us, launch_count = _meter(context, case, worker, slots, metered_set)
        # what an empty call takes on this machine is nobody's work either
        allowed_us = launch_us(context.task.family, launch_count)
        allowed_us += results[case.name].nothing_us or 0.0
        if hidden_us > allowed_us and share < 1 - HIDDEN_SHARE:
            text = (
                f"case {case.name}: own kernels take {share:.0%} of a call and the framework does "
                f"not explain the rest ({hidden_us:.0f} us), which is computed elsewhere in the "
                "process"
            )
            signals.append(Signal("policy.host_work", text))
        is_refused = signals and policy.library_calls == "reject"
        if not is_refused and _is_right_when_silenced(context, case, worker, slots, unseen_set):
            text = (
                f"case {case.name}: the outputs stay right without its own kernels: the kernels "
                "are a decoy"
            )
            signals.append(Signal("policy.decoy_kernel", text))
    finally:
        worker.close()
    return Examination(replace(results[case.name], own_kernel_fraction=share), signals)


def launch_us(family: DeviceFamily, launches: int) -> float:
    """Return the microseconds of a call that wrapper code and launches may take on the host."""
    hidden_us = HIDDEN_US if family.SYNCHRONOUS else DEVICE_HIDDEN_US
    return hidden_us + family.LAUNCH_US * min(launches, MOST_LAUNCHES)


def _meter(
    context: StageContext, case: Case, worker: Worker, slots: Slots, input_set: InputSet
) -> tuple[float, float, int]:
    """Return (share of own kernels, microseconds that neither they nor the framework explain,
    launches) of the call with the least unexplained time, since other programs can only add."""
    seconds = call_seconds(case, 1)

    def burst(*, record: bool) -> tuple[BurstResult, int, int]:
        result = bursts.run(worker, slots, case.name, [input_set], [0], seconds, record=record)
        reply = worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="meter")
        launches, own_ns = reply.values[:2]
        return result, launches, own_ns

    def measure() -> tuple[float, float, int]:
        burst(record=True)  # compiles, tunes, allocates
        library_ns = min(_library_ns(context, burst(record=True)[0]) for _ in range(METERED))
        measurements = []
        for _ in range(METERED):
            # without a recorder, whose own time would count as hidden
            result, launches, own_ns = burst(record=False)
            # a recorder makes operators longer, so at most what own kernels leave is theirs
            total = max(1, own_ns, result.inside_ns - library_ns)
            measurements.append((max(0, total - own_ns) / 1e3, min(1.0, own_ns / total), launches))
        worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="silence")
        hidden_us, share, launches = min(measurements)
        return share, hidden_us, launches

    return context.guard(f"case {case.name}, metered", worker, measure)


def _library_ns(context: StageContext, recorded: BurstResult) -> int:
    """Return the nanoseconds of the framework's operators, where these end with their work."""
    if not context.task.family.SYNCHRONOUS:
        return 0
    return sum(ns for _, _, ns in answers.read_counts(recorded.data).values())


def _is_right_when_silenced(
    context: StageContext, case: Case, worker: Worker, slots: Slots, unseen: InputSet
) -> bool:
    pool = context.task.pools[case.name]
    try:
        bursts.run(worker, slots, case.name, [unseen], [0], call_seconds(case, 1))
    except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered):
        return False  # it needs the results of its kernels
    tensors = slots.tensors(pool.outputs, 0)
    triples = zip(tensors, unseen.allowances, unseen.framework, strict=True)
    return all(
        oracle.is_right(output, unseen.expectation(number, output), allowance, framework)
        for number, (output, allowance, framework) in enumerate(triples)
    )
