"""Whether a device can be trusted again: tried out by a fresh worker after each crash and every so
often."""

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

EVERY = 50  # evaluations without a crash
PROBE_SECONDS = 60.0
# memory on the device that a killed worker may still hold, and for how long
LEFT_BYTES, LEFT_SECONDS = 256 << 20, 5.0
_SUSPICIOUS = ("crashed", "timed_out", "reward_hack")
_SUFFERING = (*_SUSPICIOUS, "build_failed")  # what processes or memory of somebody else can cause


Judged = TypeVar("Judged", Evaluation, HeadToHead)


class Unwell(Exception):
    """The device cannot be trusted; nothing is known about the candidate."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hint = (
            "The candidate was not judged. Look at nvidia-smi and the kernel's log (dmesg, lines "
            "with Xid), end what is left on the device or reset it, then repeat the call: it "
            "begins with the same check. Other devices and target cpu are not affected."
        )


class Health:
    """Of the devices that one judge uses. Whatever ends an evaluation without a verdict leaves its
    device suspect."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._evaluations: Counter[str] = Counter()
        self._suspect: set[str] = set()

    def judge(self, family: DeviceFamily, evaluate: Callable[[], Judged]) -> Judged:
        """The evaluation, if the device behind it still is what it was; a second one where the
        first may have suffered from what was left of its predecessor. Raises Unwell, and what
        `evaluate` raises."""
        if family.NAME in self._suspect:
            self._check(family, None)
        others_present = self._machine.reaper.present
        # where no process can be told, with what a worker that is kept ready holds
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
        # what touched the device beside a crash is not trusted, nor does its memory count
        self._machine.spare_worker.drop()
        if problem := self._answer(family):
            raise Unwell(f"the device of target {family.NAME} does not compute any more: {problem}")
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
        """What is wrong with the answer of a fresh worker, "" if nothing."""
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
