"""Where the outputs of a burst arrive: what bursts on the host and on a device have in common."""

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
    """Nanoseconds by the worker's clock (calls only: a claim) and by the judge's (from sending the
    inputs to holding the outputs). queued_ns: what the host took to issue the calls; on a CPU the
    same as inside_ns. Faults and involuntary switches are the worker's own count over the calls."""

    inside_ns: int
    outside_ns: int
    minor_faults: int
    major_faults: int
    switches: int
    queued_ns: int
    data: Any = None


def result_of(reply: frames.Reply, outside_ns: int, data: Any = None) -> BurstResult:
    """What a worker says of a burst, beside what the judge's clock saw of it."""
    inside, minor, major, switches, queued = reply.values[:5]
    # a device's clock is coarse
    return BurstResult(max(inside, 1), outside_ns, minor, major, switches, queued, data)


class Slots(ABC):
    """The judge's copy of the outputs of one case's calls, of `count` at most. fds: what the worker
    must be given for it."""

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
    ) -> BurstResult:
        """One burst: a call for each number of a set in `order`. record: which operators of the
        framework ran is noted. queue_ns: how long a device waits for its launches to be queued, at
        least. Raises what Worker.wait raises."""

    @abstractmethod
    def tensors(self, layout: Layout, index: int) -> list[torch.Tensor]:
        """The outputs of one call as they were taken, valid until the next burst into any slots."""

    @abstractmethod
    def put(self, place: Any) -> None:
        """Copy the outputs as they were taken into a place of the storage."""

    @abstractmethod
    def storage(self, places: int, calls: int) -> list[Any]:
        """Places for the outputs of so many calls each, which wait there for being looked at."""

    @abstractmethod
    def stack(self, place: Any, calls: int) -> list[torch.Tensor]:
        """The outputs in such a place, each with the calls as one dimension more."""
