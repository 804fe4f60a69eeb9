"""What is known about an architecture that need not be here: enough to compile for it and to read
what came out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from .occupancy import Occupancy


@dataclass(frozen=True)
class Binary:
    """What a compiler left behind for one kernel. shared: bytes of shared memory (LDS) a block asks
    for at launch. tensor: columns of tensor memory. texts: by kind ("ptx", "sass", "amdgcn").
    resources: the words of a tool that read the binary."""

    num_warps: int
    shared: int
    tensor: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    resources: str = ""


@dataclass(frozen=True)
class Facts:
    """Of one kernel on one architecture.

    registers: by name (per thread, or per lane on AMD; scalar registers per wavefront). spills:
    instructions or registers that went to memory, by name. stack_bytes: private memory per thread.
    mix: static counts of instructions by class, each counted once however often a loop runs it.
    matrix: matrix instructions by name. widths: global memory accesses by bits per lane.
    """

    registers: dict[str, int]
    spills: dict[str, int]
    stack_bytes: int
    occupancy: Occupancy
    mix: dict[str, int]
    matrix: dict[str, int]
    widths: dict[str, int]

    @property
    def spilled(self) -> bool:
        return any(self.spills.values()) or self.stack_bytes > 0


class Architecture(ABC):
    """One architecture. Stateless; nothing here needs the device."""

    name: str
    product: str  # what `describe_device` speaks of
    backend: str  # triton's word: "cuda" or "hip"
    warp_size: int
    max_shared: int  # bytes that one block may ask for

    @property
    @abstractmethod
    def compiler_arch(self) -> int | str:
        """The architecture in triton's spelling: 90, "gfx942"."""

    @abstractmethod
    def read(self, binary: Binary) -> Facts:
        """Static facts of a compiled kernel. Whatever a text does not say is left out, never
        guessed."""

    @abstractmethod
    def describe_device(self) -> dict[str, Any]:
        """What a program that asks about its device is told: the figures of one product of this
        architecture."""
