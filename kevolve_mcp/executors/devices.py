"""Which GPU an evaluation goes to, where there are several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import Device


@dataclass(frozen=True)
class Seat:
    """A GPU and its judge. started: whether the judge runs. calls: of ours that it has not answered
    yet. holds_task: whether it holds the task already."""

    device: Device
    started: bool = False
    calls: int = 0
    holds_task: bool = False


PLACED = ("cuda",)  # families of targets of which a machine may have several devices


def placed(target: str) -> bool:
    """Whether a target's evaluations are spread over the devices that are here."""
    return target.strip().lower().partition(":")[0] in PLACED


def alike(devices: Sequence[Device], target: str) -> tuple[Device, ...]:
    """The GPUs that may serve a target: of its architecture, and of one model only, that of the
    first: figures of different models do not compare."""
    family, _, arch = target.strip().lower().partition(":")
    fitting = [d for d in devices if family in PLACED and arch in ("", d.arch)]
    return tuple(
        d
        for d in fitting
        if (d.name, d.arch, d.memory_bytes)
        == (fitting[0].name, fitting[0].arch, fitting[0].memory_bytes)
    )


def choose(seats: Sequence[Seat]) -> Seat:
    """The one that is free, or will be soonest: fewest calls, nobody else's programs, no timing of
    another evaluator; then the one that holds the task, then one whose judge runs already, then the
    lowest index."""
    return min(
        seats,
        key=lambda s: (
            s.calls + 2 * bool(s.device.users) + _timed_by_others(s),
            not s.holds_task,
            not s.started,
            s.device.index,
        ),
    )


def _timed_by_others(seat: Seat) -> int:
    return int(seat.device.measuring and not seat.calls)
