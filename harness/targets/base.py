"""The interface of a device family: each family is one module with these names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..types import Ceilings, Device
from .state import DeviceState


class DeviceFamily(Protocol):
    """A kind of device that candidates run on. Modules implement it; all values are constant.

    NAME: of the target. TORCH_DEVICE: the torch device of a running worker's tensors. MARGIN: the
    ratio above which a candidate counts as faster. ADDRESS_SPACE: bytes that a candidate may map
    beyond what its process has; 0 for no limit. PATIENCE_S: seconds that a confirmation continues
    for cases that its first processes leave inconclusive. PROCESS_US: the standard deviation, in
    microseconds, between the call times of equal processes. BEHIND: the share of the best F so far
    below which a search times only one pair of processes. NARROW_FACTOR: the highest rate of its
    narrowest number formats, as a multiple of the highest measured floating-point rate.

    SYNCHRONOUS: a call is complete when it returns, so the host's clock measures it. ONE_BY_ONE:
    calls are timed one at a time, each with newly arrived inputs. LAUNCH_US: the most microseconds
    that the host takes for each launch which a call waits for. OWN_MEMORY: it has its own memory,
    in which tensors are exchanged. SLOW_START: a worker takes long to create its context, so the
    next one is started ahead. FORKS: drivers and compilers start processes in a timed worker.
    COMPILES_AT_LAUNCH: kernels are compiled in the worker at their first launch. COMPILES_AHEAD: a
    fork server compiles in advance what all tasks need. EXTRA_FIGURES: a confirmation also measures
    all cores and the naive figure. ALLOCATION: how both sides of a comparison get memory, as a text
    for readers.
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
        """Modules are hashable. Declared so that functions of a family can be cached."""

    def missing(self) -> str:
        """Return why nothing can run on it, "" if it can be used."""

    def device_key(self) -> str:
        """Return the device's part of an evaluation's key."""

    def device_id(self) -> str:
        """Return the identifier of this one device among equal ones; it names the device lock."""

    def timing_cpu(self) -> int:
        """Return the core that its timed processes are pinned to."""

    def facts(self) -> dict[str, str]:
        """Return facts for a reader, as text by name."""

    def devices(self) -> tuple[Device, ...]:
        """Return all devices of this family that evaluations may use."""

    def state(self, processes: Sequence[int]) -> DeviceState:
        """Read its present state, in a millisecond or less. processes: the evaluator's own that run
        on it."""

    def memory_of(self, processes: Sequence[int]) -> int | None:
        """Return the bytes of the device's own memory that these processes hold together; None if
        it has none or the driver does not report them."""

    def unowned_bytes(self) -> int:
        """Return the bytes of the device's memory in use that the driver counts for no process,
        beyond the least seen so far."""

    def nodes(self) -> tuple[str, ...]:
        """Return the device files that a confined worker needs."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables that its workers need."""

    def preload(self) -> list[str]:
        """Return the modules that its fork server imports."""

    def versions(self) -> dict[str, str]:
        """Return the versions, by name, of its compilers besides the machine's, for an evaluation's
        key."""

    def ceilings(
        self, cache: Path, command: list[str], exceeded: Ceilings | None = None
    ) -> Ceilings:
        """Return its ceilings, measured once and kept in the cache. command: measures them in
        another process and prints JSON. exceeded: see ceilings_cache.ceilings."""

    def measure(self) -> None:
        """Print the ceilings as JSON."""
