"""What is known about the inside of a library. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Body:
    """One innermost loop, or the whole of a function without one (`loop` is False).

    line: of the source text, from 1, where most of it comes from, 0 if unknown. bits: of the vector
    registers that it computes in, 0 for scalar code, -1 where the width is only known on the device
    (SVE). lanes: elements in one of them, 1 for scalar code, 0 if unknown. remainder: a narrower
    loop over the same lines as a wider one of its function, or one that the compiler holds to be
    rare. facts: counts by name, see `counting`. cycles: of one iteration, None if unknown; by: what
    estimated them. limit: what holds it up. pressure: cycles of an iteration by port. calls:
    functions of the same library that it calls. text: its instructions with source lines.
    """

    line: int = 0
    loop: bool = True
    bits: int = 0
    lanes: int = 1
    remainder: bool = False
    facts: dict[str, float] = field(default_factory=dict)
    cycles: float | None = None
    by: str = ""
    limit: str = ""
    pressure: dict[str, float] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class CompiledFunction:
    """exported: it can be called from Python. refers: functions of the same library whose address
    it takes or that it calls."""

    exported: bool = False
    refers: tuple[str, ...] = ()
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True)
class Inside:
    """functions: by symbol. disassembler: its name and version, "" where there is none; then `note`
    says why nothing is known. note: also what was left out."""

    functions: dict[str, CompiledFunction] = field(default_factory=dict)
    disassembler: str = ""
    architecture: str = ""
    note: str = ""
