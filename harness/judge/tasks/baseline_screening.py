"""The screening of a case's baselines: a few bursts under the device lock, enough to choose the
strongest ones."""

from __future__ import annotations

from dataclasses import replace

from ...targets.state import disturbances
from ...types import Case
from ...wire.task_lines import FORWARD
from ..correctness import oracle, tolerance
from ..device import roofline
from ..device.locks import DeviceLock
from ..errors import TaskRefusedError, WorkerFailed
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..exchange.slots import Slots
from ..processes.freezing import aside
from .open_task import COMPILE_SECONDS, OpenTask, Tell

SCREENING_BURSTS = 5
SHORT_US, SHORT_CALLS = 500.0, 16


class Screening:
    """The screened cases of one task. Cases that were not screened at opening (held-out cases, a
    task opened for a check) are screened once when they are needed."""

    def __init__(self, task: OpenTask, tell: Tell) -> None:
        self._task, self._tell = task, tell
        self._cases: dict[str, Case] = {}

    def of(self, case: Case) -> Case:
        """Return the case with its baselines' microseconds."""
        if case.baselines_us:
            return case
        if case.name not in self._cases:
            self._task.pool(case.name)
            case_facts = self._task.describe_case(case)
            self._cases[case.name] = screen_baselines(self._task, case_facts, self._tell, 0.4)
        return self._cases[case.name]


def screen_baselines(handle: OpenTask, case: Case, tell: Tell, fraction: float) -> Case:
    """Screen every baseline of a case: verify it, then time a few bursts under the device lock."""
    pool = handle.pools[case.name]
    lock = DeviceLock(handle.family.device_id())
    call_us: dict[str, float] = {}  # microseconds of one call, for the number of calls of a burst
    for baseline in handle.baselines:
        tell("baseline", f"case {case.name}: {baseline}", fraction)
        try:
            handle.prepare_baselines(case.name, [baseline])
            key, slots = f"{case.name}/{baseline}", handle.slots[f"{case.name}/baselines"]
            _, input_set = pool.checking[0]
            bursts.run(handle.baseline_worker, slots, key, [input_set], [0, 0], COMPILE_SECONDS)
            if (mismatch := _mismatch(pool, slots, input_set)) and baseline != "eager":
                handle.notes.append(
                    f"baseline {baseline} gives a different result than the reference in case "
                    f"{case.name} ({mismatch}); it was left out"
                )
                continue
            us, *_ = bursts.hot(handle.baseline_worker, key, input_set, 2, COMPILE_SECONDS, 0)
            # two calls after a sleep take several times as long as those of a burst
            if us < SHORT_US:
                us, *_ = bursts.hot(
                    handle.baseline_worker, key, input_set, SHORT_CALLS, COMPILE_SECONDS, 0
                )
            call_us[baseline] = us
        except WorkerFailed as error:
            _note_failure(handle, case, baseline, error)
    if not call_us:
        raise _nothing_to_compare(handle, case)
    handle.drawer.draw_timing(pool, min(call_us.values()), SCREENING_BURSTS)
    times: dict[str, float] = {}
    for baseline in call_us:
        key = f"{case.name}/{baseline}"
        # now with slots for a whole burst; recompilation must not happen under the lock
        try:
            handle.prepare_baselines(case.name, [baseline])
            bursts.run(
                handle.baseline_worker,
                handle.slots[f"{case.name}/baselines"],
                key,
                [pool.checking[0][1]],
                [0],
                COMPILE_SECONDS,
            )
            with lock.hold(), aside(handle.timing_cpus):
                processes = [handle.baseline_worker.pid]
                before = handle.family.state(processes)
                times[baseline] = _median_us(handle, pool, baseline)
                if signals := disturbances(before, handle.family.state(processes)):
                    handle.disturbance = signals[0].text
        except WorkerFailed as error:
            _note_failure(handle, case, baseline, error)
    if not times:
        raise _nothing_to_compare(handle, case)
    handle.screening_us[case.name] = times
    pool.release()
    roofline_time_us = roofline.roofline_time_us(
        case, handle.machine.ceilings_of(handle.family), pool.working_set
    )
    return replace(
        case,
        baselines_us=times,
        roofline_time_us=roofline_time_us,
        families=tuple(pool.families),
        dropped_families=dict(pool.dropped_families),
    )


def _note_failure(handle: OpenTask, case: Case, baseline: str, error: WorkerFailed) -> None:
    handle.notes.append(
        f"baseline {baseline} does not run in case {case.name}: {str(error).splitlines()[0][:200]}"
    )


def _nothing_to_compare(handle: OpenTask, case: Case) -> TaskRefusedError:
    where = handle.text.lines.at(*FORWARD)
    return TaskRefusedError(
        f"{where}: case {case.name!r}: there is nothing to compare with. {'. '.join(handle.notes)}"
    )


def _median_us(handle: OpenTask, pool: CasePool, baseline: str) -> float:
    """Return the median microseconds of a call."""
    worker, key, slots = (
        handle.baseline_worker,
        f"{pool.name}/{baseline}",
        handle.slots[f"{pool.name}/baselines"],
    )
    times_us, queue_ns = [], 0
    for number in range(SCREENING_BURSTS):
        sets = bursts.group(pool, number).sets
        calls, patience = list(range(len(sets))), bursts.patience(queue_ns)
        result = bursts.run(worker, slots, key, sets, calls, COMPILE_SECONDS, queue_ns=patience)
        queue_ns = max(queue_ns, result.queued_ns)
        times_us.append(result.inside_ns / 1e3 / len(sets))
    return sorted(times_us)[len(times_us) // 2]


def _mismatch(pool: CasePool, slots: Slots, input_set: InputSet) -> str:
    """Return how the outputs of the first call differ from the reference's, "" if they do not."""
    outputs = slots.tensors(pool.outputs, 0)
    for number, (output, allowance, framework) in enumerate(
        zip(outputs, pool.allowances, input_set.framework, strict=True)
    ):
        expected = input_set.expectation(number, output)
        finding = oracle.compare(
            output, expected, replace(tolerance.widen(allowance), rule="rounding"), framework
        )  # generous, since the user chose the baseline
        if finding.signal is not None:
            return finding.detail
    return ""
