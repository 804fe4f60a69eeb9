"""Health checks of a device: a fresh worker tests it after each crash and at intervals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from ...targets import DeviceFamily
from ...types import Evaluation, HeadToHead
from ...workers import probe
from ..errors import Interfered, Refused, WorkerDied, WorkerFailed, WorkerTimeout
from .machine import Machine

EVERY = 50  # evaluations after which a device is checked even without a crash
PROBE_SECONDS = 60.0
# device memory that may remain after a killed worker, and how long to wait for it
LEFT_BYTES, LEFT_SECONDS = 256 << 20, 5.0
_SUSPICIOUS = ("crashed", "timed_out", "reward_hack")
_SUFFERING = (*_SUSPICIOUS, "build_failed")  # statuses that an earlier worker's remains can cause


Judged = TypeVar("Judged", Evaluation, HeadToHead)


class Unwell(Exception):
    """The device cannot be trusted. Nothing is known about the candidate."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hint = (
            "The candidate was not judged. Look at nvidia-smi and the kernel's log (dmesg, lines "
            "with Xid), end the processes on the device or reset it, then repeat the call, which "
            "begins with the same check. Other devices and target cpu are not affected."
        )


class Health:
    """The health of the devices that one judge uses. An evaluation that ends without a verdict
    leaves its device suspect."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._evaluations: Counter[str] = Counter()
        self._suspect: set[str] = set()

    def judge(self, family: DeviceFamily, evaluate: Callable[[], Judged]) -> Judged:
        """Evaluate, and check the device afterwards where necessary. The evaluation is repeated if
        the remains of its predecessor may have affected it. Raises Unwell, and what `evaluate`
        raises."""
        if family.NAME in self._suspect:
            self._check(family, None)
        others_present = self._machine.reaper.present
        # includes the memory of the spare worker where processes cannot be distinguished
        bytes_before = family.state(()).held_bytes
        self._suspect.add(family.NAME)
        result = evaluate()
        if others_present and result.status in _SUFFERING:
            self._machine.reaper.wait()
            bytes_before = family.state(()).held_bytes
            result = evaluate()
        self._evaluations[family.NAME] += 1
        if result.status in _SUSPICIOUS or self._evaluations[family.NAME] % EVERY == 0:
            self._check(family, bytes_before)
        self._suspect.discard(family.NAME)
        return result

    def _check(self, family: DeviceFamily, bytes_before: int | None) -> None:
        self._machine.reaper.wait()
        # a spare worker that was on the device during a crash is not trusted; its memory must not
        # count either
        self._machine.spare_worker.drop()
        if problem := self._answer(family):
            raise Unwell(f"the device of target {family.NAME} no longer works: {problem}")
        deadline = time.monotonic() + LEFT_SECONDS
        while (
            bytes_before is not None
            and (bytes_left := (family.state(()).held_bytes or 0) - bytes_before) > LEFT_BYTES
        ):
            if time.monotonic() > deadline:
                raise Unwell(
                    f"{bytes_left >> 20} MiB on the device of target {family.NAME} belong to no "
                    "process, and were not there before"
                )
            time.sleep(0.1)

    def _answer(self, family: DeviceFamily) -> str:
        """Return what is wrong with a fresh worker's result, "" if nothing."""
        machine = self._machine
        try:
            worker = machine.server_for(family).worker(
                "probe", machine.rules(machine.level, family), machine.scratch
            )
        except (Refused, WorkerDied, OSError) as error:
            return f"no worker could be started ({error})"
        try:
            values = worker.ask("probe", seconds=PROBE_SECONDS, device=family.TORCH_DEVICE).values[
                :2
            ]
        except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered) as error:
            return str(error) or "no answer in time"
        finally:
            worker.close()
        return (
            ""
            if values == probe.expected_values()
            else f"it gives {values} where {probe.expected_values()} is right"
        )
