"""A description of what one instruction does, the same for every processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .listing import Instruction

Kind = Literal[
    "float",
    "divide",
    "root",
    "vector",
    "shuffle",
    "gather",
    "integer",
    "move",
    "jump",
    "branch",
    "call",
    "return",
    "nothing",
]


@dataclass(frozen=True)
class Operation:
    """What one instruction does. kind: "vector" is integer or bitwise work in vector registers;
    "move" includes loads and stores. packed: floating-point arithmetic on a vector; scalar: on one
    value. bits: the width of the vectors that it works on, 0 for none or for a single value.
    element: bits of an element, 0 if unknown. register: bits of the widest register named. loads,
    stores: whether memory is read and written. slot: the operand of an access to the stack, ""
    otherwise. reads, writes: registers. addresses: registers that are used only to form an
    address."""

    kind: Kind
    packed: bool = False
    scalar: bool = False
    bits: int = 0
    element: int = 0
    register: int = 0
    loads: bool = False
    stores: bool = False
    slot: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Core:
    """The cost of instructions on one kind of processor. groups: the cycles that an instruction
    occupies one of `units[group]` equal units, by group. latency: cycles until its result is ready.
    load: cycles until a loaded value is ready. issue: instructions per cycle. source: where the
    figures come from."""

    name: str
    source: str
    issue: int
    units: Mapping[str, int]
    groups: Callable[[Operation], Mapping[str, float]]
    latency: Callable[[Operation], float]
    load: float


@dataclass(frozen=True)
class InstructionSet:
    """The functions that interpret one architecture's instructions. kind: classifies an instruction
    by its name alone. has_frame: whether a function uses the frame pointer as such. core: None if
    unknown."""

    name: str
    kind: Callable[[str], Kind]
    has_frame: Callable[[tuple[Instruction, ...]], bool]
    read: Callable[[Instruction, bool], Operation]
    core: Core | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
