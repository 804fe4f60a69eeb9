"""What is known about the code of a library. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Body:
    """One innermost loop, or the whole of a function without loops (`loop` is False).

    line: the source line, from 1, that most of its instructions come from, 0 if unknown. bits: of
    the vector registers that it computes with, 0 for scalar code, -1 where the width depends on the
    device (SVE). lanes: elements in one vector, 1 for scalar code, 0 if unknown. remainder: it is a
    narrower loop over the lines of a wider one in its function, or the compiler considers it rare.
    facts: counts by name, see `counting`. cycles: of one iteration, None if unknown. by: what
    estimated them. limit: the bottleneck. pressure: cycles of an iteration by port. calls: the
    functions that it calls. text: its instructions with source lines.
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
    """One function of a library. exported: it can be called from Python. refers: the functions of
    the same library that it calls or whose address it takes."""

    exported: bool = False
    refers: tuple[str, ...] = ()
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True)
class Inside:
    """The analysis of a library. functions: by symbol. disassembler: its name and version, "" where
    there is none. note: what was left out, or why nothing is known."""

    functions: dict[str, CompiledFunction] = field(default_factory=dict)
    disassembler: str = ""
    architecture: str = ""
    note: str = ""
