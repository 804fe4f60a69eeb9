"""Analyses a disassembler's output. Pure except for the estimator passed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from . import counting, flow, table
from .aarch64 import AARCH64
from .inside import Body, CompiledFunction, Inside
from .listing import Instruction, functions
from .operations import InstructionSet, Operation
from .x86 import X86

ARCHITECTURES = {"x86_64": X86, "amd64": X86, "aarch64": AARCH64, "arm64": AARCH64}
# bodies of a library; instructions shown of one body; characters of a line
MOST_BODIES, MOST_LINES, MOST_CHARS = 64, 240, 160
_OF_THE_COMPILER = (
    "_init", "_fini", "_start", "deregister_tm_clones", "register_tm_clones",
    "__do_global_dtors_aux", "frame_dummy", "_dl_relocate_static_pie",
)  # fmt: skip
_GOES_ON = re.compile(r"\bfor\s*\(\s*;")  # "for (; i < n; ++i)"
Estimator = Callable[[Sequence[Sequence[Instruction]], InstructionSet], list[table.Estimate]]


@dataclass(frozen=True)
class _Piece:
    """One body during analysis. aside: the number of its instructions that the compiler placed
    elsewhere."""

    function: str
    loop: bool
    code: tuple[Instruction, ...]
    operations: tuple[Operation, ...]
    aside: int = 0


def read(
    listing: str,
    source: str,
    file: str,
    machine: str,
    exported: Sequence[str],
    mca: Estimator | None = None,
) -> Inside:
    """Analyse a listing. listing: the disassembler's output. source: the text that was compiled.
    file: its name in the listing. machine: as platform.machine() gives it. exported: functions that
    Python may call. mca: estimates cycles; where it is None or raises ValueError, the table is
    used."""
    architecture = ARCHITECTURES.get(machine.lower())
    if architecture is None:
        return Inside(
            architecture=machine,
            note=f"loops are analysed on x86-64 and aarch64 only, and this is {machine}",
        )
    code_of = {
        n: tuple(c)
        for n, c in functions(listing, file).items()
        if n not in _OF_THE_COMPILER and not n.endswith("@plt")
    }
    pieces = [
        piece for name, code in code_of.items() for piece in _pieces(name, code, architecture)
    ]
    note = (
        f"{len(pieces) - MOST_BODIES} more loops were left out" if len(pieces) > MOST_BODIES else ""
    )
    pieces = pieces[:MOST_BODIES]
    estimated, failed = _estimate(pieces, architecture, mca)
    lines = source.splitlines()
    bodies: dict[str, list[tuple[_Piece, Body]]] = {}
    for piece, cost in zip(pieces, estimated, strict=True):
        bodies.setdefault(piece.function, []).append(
            (piece, _body(piece, cost, lines, architecture))
        )
    descriptions = {
        name: CompiledFunction(
            name in exported,
            _refers(name, code, code_of),
            _remainders(bodies.get(name, []), lines),
        )
        for name, code in code_of.items()
    }
    return Inside(
        descriptions, architecture=architecture.name, note="; ".join(filter(None, (note, failed)))
    )


def _pieces(name: str, code: tuple[Instruction, ...], architecture: InstructionSet) -> list[_Piece]:
    frame = architecture.has_frame(code)
    loops = flow.innermost(code, architecture.kind)
    if not loops:
        return [_Piece(name, False, code, tuple(architecture.read(i, frame) for i in code))]
    return [
        _Piece(
            name,
            True,
            loop.instructions,
            tuple(architecture.read(i, frame) for i in loop.instructions),
            len(loop.aside),
        )
        for loop in loops
    ]


def _estimate(
    pieces: Sequence[_Piece], architecture: InstructionSet, mca: Estimator | None
) -> tuple[list[table.Estimate | None], str]:
    """Return an estimate per piece, None where it is not a loop, and why llvm-mca failed."""
    loops, failed = [p for p in pieces if p.loop], ""
    costs: list[table.Estimate] = []
    if mca is not None:
        try:
            costs = mca([p.code for p in loops], architecture)
        except ValueError as error:
            failed = str(error)
    if len(costs) != len(loops):
        costs = (
            [table.estimate(p.operations, architecture.core) for p in loops]
            if architecture.core
            else []
        )
    remaining = iter(costs)
    return [next(remaining, None) if p.loop else None for p in pieces], failed


def _body(
    piece: _Piece, cost: table.Estimate | None, source: list[str], architecture: InstructionSet
) -> Body:
    bits, lanes = counting.width(piece.operations)
    lines = [i.line for i in piece.code if i.line]
    return Body(
        line=max(set(lines), key=lines.count) if lines else 0,
        loop=piece.loop,
        bits=bits,
        lanes=lanes,
        remainder=piece.function.endswith(".cold"),
        facts=counting.count(piece.code, piece.operations),
        cycles=cost.cycles if cost else None,
        by=cost.by if cost else "",
        limit=cost.limit if cost else "",
        pressure=cost.pressure if cost else {},
        calls=tuple(
            dict.fromkeys(
                n
                for i in piece.code
                if architecture.kind(i.name) in ("call", "jump")
                for n in i.names
                if n != piece.function
            )
        ),
        text=_text(piece, source),
    )


def _text(piece: _Piece, source: list[str]) -> str:
    """List the instructions, each group preceded by its source line."""
    written, line = [], 0
    for i in piece.code[:MOST_LINES]:
        if i.line and i.line != line:
            line = i.line
            line_text = source[line - 1].strip() if line <= len(source) else ""
            written.append(f"; {line}: {line_text}"[:MOST_CHARS])
        written.append(f"{i.address:8x}  {i.name:<12} {i.operands}"[:MOST_CHARS].rstrip())
    if len(piece.code) > MOST_LINES:
        written.append(f"; {len(piece.code) - MOST_LINES} more instructions")
    if piece.aside:
        written.append(
            f"; {piece.aside} instructions of this loop are elsewhere: the compiler considers them "
            "rare"
        )
    return "\n".join(written)


def _remainders(read: Sequence[tuple[_Piece, Body]], source: Sequence[str]) -> tuple[Body, ...]:
    """Mark the remainder loops: a loop that shares half of its lines with a wider one handles what
    the wider one leaves over; so does a narrower one written to continue where another stopped."""
    lines = [
        ({i.line for i in piece.code if 0 < i.line <= len(source)}, body) for piece, body in read
    ]

    def is_remainder(numbers: set[int], body: Body) -> bool:
        wider = [other for other, second in lines if 0 <= body.bits < second.bits]
        shared = any(numbers and 2 * len(numbers & other) >= len(numbers) for other in wider)
        return shared or (
            bool(wider) and any(_GOES_ON.search(source[line - 1]) for line in numbers)
        )

    return tuple(
        replace(body, remainder=body.remainder or is_remainder(numbers, body))
        for numbers, body in lines
    )


def _refers(
    name: str, code: Sequence[Instruction], code_of: dict[str, tuple[Instruction, ...]]
) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            other for i in code for other in i.names if other != name and other in code_of
        )
    )
