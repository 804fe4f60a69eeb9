"""What a device family offers: a module with these names. One file a family."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..types import Ceilings, Device
from .state import DeviceState


class DeviceFamily(Protocol):
    """A kind of device that candidates run on. Modules fulfil it; everything is read once and does
    not change.

    NAME: of the target. TORCH_DEVICE: where tensors live while a worker runs. MARGIN: a ratio must
    exceed it to count as faster. ADDRESS_SPACE: bytes a candidate may map beyond what its process
    has; 0 for no limit. PATIENCE_S: seconds that a confirmation goes on for cases which its first
    processes leave inconclusive. PROCESS_US: by how much a call of equal processes is known to
    differ, as a standard deviation in microseconds. BEHIND: the share of the best F so far below
    which one pair of processes suffices for a search. NARROW_FACTOR: how many times the highest
    measured rate of floating-point operations the narrowest formats of its kind may reach.

    SYNCHRONOUS: a call is over when it returns, and what the host sees of it is its time.
    ONE_BY_ONE: calls are timed alone, each with inputs that arrive for it. LAUNCH_US: microseconds
    that the host may take for each launch which a call waits for. OWN_MEMORY: it has memory of its
    own, in which tensors are handed over. SLOW_START: a worker takes long to make its context, so
    the next one is started ahead. FORKS: drivers and compilers start processes in a worker that is
    timed. COMPILES_AT_LAUNCH: kernels are compiled when they are first launched, in the worker.
    COMPILES_AHEAD: a fork server compiles for it what all tasks need. EXTRA_FIGURES: a confirmation
    measures all cores and the naive figure besides. ALLOCATION: how both sides of a comparison get
    memory, for a reader.
    """

    @property
    def NAME(self) -> str: ...
    @property
    def TORCH_DEVICE(self) -> str: ...
    @property
    def MARGIN(self) -> float: ...
    @property
    def ADDRESS_SPACE(self) -> int: ...
    @property
    def PATIENCE_S(self) -> float: ...
    @property
    def PROCESS_US(self) -> float: ...
    @property
    def BEHIND(self) -> float: ...
    @property
    def NARROW_FACTOR(self) -> float: ...
    @property
    def SYNCHRONOUS(self) -> bool: ...
    @property
    def ONE_BY_ONE(self) -> bool: ...
    @property
    def LAUNCH_US(self) -> float: ...
    @property
    def OWN_MEMORY(self) -> bool: ...
    @property
    def SLOW_START(self) -> bool: ...
    @property
    def FORKS(self) -> bool: ...
    @property
    def COMPILES_AT_LAUNCH(self) -> bool: ...
    @property
    def COMPILES_AHEAD(self) -> bool: ...
    @property
    def EXTRA_FIGURES(self) -> bool: ...
    @property
    def ALLOCATION(self) -> str: ...

    def __hash__(self) -> int:
        """Modules are hashable; said here so that answers about a family can be kept."""

    def missing(self) -> str:
        """Why nothing can run there, "" where it can."""

    def device_key(self) -> str:
        """What of the device belongs to an evaluation's key."""

    def device_id(self) -> str:
        """Which of several equal devices it is: what the device lock is named after."""

    def timing_cpu(self) -> int:
        """The core that its timed processes are pinned to."""

    def facts(self) -> dict[str, str]:
        """What a reader wants to know about it, as text by name."""

    def devices(self) -> tuple[Device, ...]:
        """All of this family that evaluations may use."""

    def state(self, processes: Sequence[int]) -> DeviceState:
        """What it is like now. processes: of ours that run on it. Takes a millisecond or less."""

    def memory_of(self, processes: Sequence[int]) -> int | None:
        """Bytes of the device's own memory that these processes hold together; None where it has
        none, or the driver does not tell."""

    def nodes(self) -> tuple[str, ...]:
        """Device files that a confined worker needs."""

    def environment(self) -> dict[str, str]:
        """Variables that its workers need."""

    def preload(self) -> list[str]:
        """Modules that its fork server imports."""

    def versions(self) -> dict[str, str]:
        """What compiles for it besides the machine's compiler: version by name, as an evaluation's
        key has it."""

    def ceilings(
        self, cache: Path, command: list[str], exceeded: Ceilings | None = None
    ) -> Ceilings:
        """Measured once and kept in the cache; `command` measures in another process and prints
        JSON. exceeded: see ceilings_cache.ceilings."""

    def measure(self) -> None:
        """Print the ceilings as JSON."""
