"""What one instruction does, in words that hold for every processor."""

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
    """kind: "vector" is integer or bitwise work in vector registers; "move" also loads and stores.
    packed: floating-point arithmetic on a vector; scalar: on one value. bits: of the vector
    registers that it is about, 0 for none or for one value; element: bits of an element, 0 if
    unknown. register: bits of the widest register named. loads, stores: whether memory is read and
    written. slot: the place on the stack, "" for other memory. reads, writes: registers; addresses:
    those that only say where memory is."""

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
    """What a processor of some kind takes for an instruction. groups: cycles on one of
    `units[group]` equal units. latency: cycles until the result is there, load: until what is
    loaded is. issue: instructions a cycle. source: where the figures are from."""

    name: str
    source: str
    issue: int
    units: Mapping[str, int]
    groups: Callable[[Operation], Mapping[str, float]]
    latency: Callable[[Operation], float]
    load: float


@dataclass(frozen=True)
class InstructionSet:
    """kind: of an instruction's name, without its operands. frame: whether the frame pointer of a
    function is one. core: None if unknown."""

    name: str
    kind: Callable[[str], Kind]
    has_frame: Callable[[tuple[Instruction, ...]], bool]
    read: Callable[[Instruction, bool], Operation]
    core: Core | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
