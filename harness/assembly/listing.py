"""Parses the output of a disassembler (`objdump -d -l --inlines`, `llvm-objdump -d -l`) into
functions and instructions. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_PLACE = re.compile(r"^(?:; )?(?:inlined by )?(.*):(\d+)(?: \(.*\))?$")
_ADDRESS = re.compile(r"^(?:.*,\s*)?(?:0x)?([0-9a-f]+) <")
_NAMED = re.compile(r"<([^<>+]+?)(?:@plt)?>")
_PREFIXES = ("lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "ds")
MOST_INSTRUCTIONS = 200_000  # in a library
MOST_IN_FUNCTION = 20_000


@dataclass(frozen=True)
class Instruction:
    """One instruction. target: the address in its operand, None without one. names: the symbols in
    its operand. line: of the candidate's source."""

    address: int
    name: str
    operands: str = ""
    target: int | None = None
    names: tuple[str, ...] = ()
    line: int = 0


def functions(listing: str, source: str) -> dict[str, list[Instruction]]:
    """Parse a listing into instructions by symbol. source: the file whose lines count; code inlined
    from another file gets the line that it is inlined into."""
    code: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    line, fresh, total = 0, False, 0
    for text in listing.splitlines():
        if not text:
            continue
        if begins := _FUNCTION.match(text):
            current, line, fresh = code.setdefault(begins.group(2), []), 0, False
        elif instruction := _INSTRUCTION.match(text):
            total += 1
            if total > MOST_INSTRUCTIONS:
                break
            if len(current) < MOST_IN_FUNCTION:
                current.append(_read(int(instruction.group(1), 16), instruction.group(2), line))
            fresh = False
        elif (
            (place := _PLACE.match(text))
            and not fresh
            and place.group(1).rsplit("/", 1)[-1] == source
        ):
            # the first place that names the source is the innermost
            line, fresh = int(place.group(2)), True
    return code


def _read(address: int, text: str, line: int) -> Instruction:
    code, *comments = re.split(r"\s+(?:# |// )", text.replace("\t", " "), maxsplit=1)
    name, _, operands = code.strip().partition(" ")
    while name in _PREFIXES and operands.strip():
        name, _, operands = operands.strip().partition(" ")
    operands = operands.strip()
    address_named = _ADDRESS.match(operands)
    where = int(address_named.group(1), 16) if address_named else None
    return Instruction(
        address,
        name,
        operands,
        where,
        tuple(_NAMED.findall(f"{operands} {comments[0] if comments else ''}")),
        line,
    )
