"""What is known about an architecture without a device of it: enough to compile for it and to read
the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from .occupancy import Occupancy


@dataclass(frozen=True)
class Binary:
    """What a compiler produced for one kernel. shared: bytes of shared memory (LDS) that a block
    requests at launch. tensor: columns of tensor memory. texts: by kind ("ptx", "sass", "amdgcn").
    resources: the output of a tool that read the binary."""

    num_warps: int
    shared: int
    tensor: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    resources: str = ""


@dataclass(frozen=True)
class Facts:
    """Static facts of one kernel on one architecture.

    registers: by name (per thread, or per lane on AMD; scalar registers per wavefront). spills: by
    name, the spill instructions or the spilled registers. stack_bytes: private memory per thread.
    mix: static counts of instructions by class; an instruction in a loop counts once. matrix:
    counts of matrix instructions by name. widths: counts of global memory accesses by bits per
    lane.
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
    """One architecture. Stateless; no method needs the device."""

    name: str
    product: str  # the product that `describe_device` describes
    backend: str  # in Triton's spelling: "cuda" or "hip"
    warp_size: int
    max_shared: int  # the most bytes that one block may request

    @property
    @abstractmethod
    def compiler_arch(self) -> int | str:
        """The architecture in Triton's spelling: 90, "gfx942"."""

    @abstractmethod
    def read(self, binary: Binary) -> Facts:
        """Read the static facts of a compiled kernel. What the texts do not say is left out, never
        guessed."""

    @abstractmethod
    def describe_device(self) -> dict[str, Any]:
        """Return the answers for a program that queries its device: the figures of one product of
        this architecture."""
