"""Slots for the outputs of a burst: the common part of bursts on the host and on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...wire import frames
from ...wire.layouts import Layout
from ..processes.worker import Worker
from .input_sets import InputSet

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class BurstResult:
    """The figures of a burst. inside_ns: the calls by the worker's clock, which is only a claim.
    outside_ns: by the judge's clock, from sending the inputs to having the outputs. queued_ns: the
    host's time to issue the calls; on a CPU equal to inside_ns. Faults and involuntary switches:
    the worker's own count during the calls."""

    inside_ns: int
    outside_ns: int
    minor_faults: int
    major_faults: int
    switches: int
    queued_ns: int
    data: Any = None


def result_of(reply: frames.Reply, outside_ns: int, data: Any = None) -> BurstResult:
    """Combine a worker's report of a burst with the judge's time."""
    inside, minor, major, switches, queued = reply.values[:5]
    # at least 1: a device's clock is coarse
    return BurstResult(max(inside, 1), outside_ns, minor, major, switches, queued, data)


class Slots(ABC):
    """The judge's copies of the outputs of one case, for at most `count` calls. fds: descriptors
    that the worker needs."""

    count: int
    fds: Sequence[int] = ()

    @abstractmethod
    def run(
        self,
        worker: Worker,
        key: str,
        sets: Sequence[InputSet],
        order: list[int],
        seconds: float,
        *,
        record: bool,
        queue_ns: int,
        manner: str,
    ) -> BurstResult:
        """Run one burst: a call for each index of a set in `order`. record: also count the
        framework's operators. queue_ns: the least time that a device waits for its launches to be
        queued. manner: see workers.call_manners. Raises what Worker.wait raises."""

    @abstractmethod
    def tensors(self, layout: Layout, index: int) -> list[torch.Tensor]:
        """Return the outputs of one call, valid until the next burst into any slots."""

    @abstractmethod
    def put(self, place: Any) -> None:
        """Copy the outputs of the last burst to a place of the storage."""

    @abstractmethod
    def storage(self, places: int, calls: int) -> list[Any]:
        """Return places for the outputs of `calls` calls each, where they wait to be checked."""

    @abstractmethod
    def stack(self, place: Any, calls: int) -> list[torch.Tensor]:
        """Return the outputs in such a place, each with the calls as an additional dimension."""
