"""Instructions of AArch64 and their cost on a Neoverse N1. The width of SVE depends on the device,
so it cannot be read from the text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .listing import Instruction
from .operations import Core, InstructionSet, Kind, Operation

_REGISTER = re.compile(r"\b([xwvzqdshb])(\d{1,2})\b|\b(sp)\b")
_ARRANGED = re.compile(r"\bv\d+\.(\d+)([bhsd])")
_SIZES = {"b": 8, "h": 16, "s": 32, "d": 64}
_FLOAT = re.compile(
    r"^f(?:n?m(?:add|sub|ul|la|ls)|add|sub|ul|abs|neg|max|min|mul|mla|mls|maxnm|minnm|cmp|cm|recp|"
    r"rsqrt|rint|addp|cvt)|^[su]cvtf"
)
_SHUFFLE = re.compile(r"^(?:zip|uzp|trn|ext|tbl|tbx|rev|dup|ins|splice|compact|addv|faddv?p?$)")


def kind(name: str) -> Kind:
    """See InstructionSet."""
    if name in ("b", "br"):
        return "jump"
    if name.startswith("b.") or name in ("cbz", "cbnz", "tbz", "tbnz"):
        return "branch"
    if name in ("bl", "blr"):
        return "call"
    if name in ("ret", "udf", "brk"):
        return "return"
    if name in ("nop", "hint", "bti", "paciasp", "autiasp") or name.startswith("prf"):
        return "nothing"
    if name.startswith("fsqrt"):
        return "root"
    if name.startswith(("fdiv", "sdiv", "udiv")):
        return "divide"
    if _FLOAT.match(name):
        return "float"
    if _SHUFFLE.match(name):
        return "shuffle"
    return "move" if name.startswith(("ld", "st", "mov", "fmov")) else "integer"


def has_frame(code: tuple[Instruction, ...]) -> bool:
    """Return whether x29 is a frame pointer, which is so only if the function sets it up."""
    return any(i.name in ("mov", "add") and re.match(r"x29, ?sp", i.operands) for i in code[:40])


def read(instruction: Instruction, frame: bool) -> Operation:
    """See InstructionSet."""
    name, operands, what = instruction.name, instruction.operands, kind(instruction.name)
    if what in ("nothing", "jump", "branch", "call", "return"):
        return Operation(what)
    memory = (
        operands[operands.index("[") :] if "[" in operands and name.startswith(("ld", "st")) else ""
    )
    named = [
        (letter or "sp", number)
        for letter, number, _ in _REGISTER.findall(operands.split("[")[0] if memory else operands)
    ]
    scalable = any(letter == "z" for letter, _ in named)
    arranged = _ARRANGED.search(operands)
    vector = bool(arranged) or any(letter in "vqz" for letter, _ in named)
    single = not vector and any(letter in ("s", "d", "h") for letter, _ in named)
    gather = (
        scalable and memory != "" and name.startswith("ld") and bool(re.search(r"\bz\d", memory))
    )
    stack = bool(re.match(r"\[sp\b|\[x29\b" if frame else r"\[sp\b", memory))
    bits = (
        -1
        if scalable
        else int(arranged.group(1)) * _SIZES[arranged.group(2)]
        if arranged
        else 128
        if vector
        else 0
    )
    arithmetic = what in ("float", "divide", "root")
    registers = [f"v{n}" if letter in "vzqdshb" else f"x{n}" for letter, n in named]
    address = tuple(f"x{n}" for letter, n, _ in _REGISTER.findall(memory) if letter in ("x", "w"))
    results = 2 if name.startswith(("ldp", "ldnp")) else 1
    accumulates = name.startswith(("fmla", "fmls", "mla", "mls", "bfdot", "sdot", "udot", "ins"))
    writes = () if name.startswith(("st", "cmp", "fcmp", "tst")) else tuple(registers[:results])
    return Operation(
        kind="gather" if gather else "vector" if what == "integer" and vector else what,
        packed=arithmetic and vector,
        scalar=arithmetic and single,
        bits=bits if what != "move" or memory else 0,
        element=_SIZES[arranged.group(2)] if arranged else 0,
        register=128 if vector else 0,
        loads=name.startswith("ld"),
        stores=name.startswith("st"),
        slot=memory if stack else "",
        reads=tuple(registers if accumulates or not writes else registers[results:]),
        writes=writes,
        addresses=address,
    )


def groups(operation: Operation) -> Mapping[str, float]:
    """Return the reciprocal throughputs of a Neoverse N1."""
    group_cycles: dict[str, float] = {}
    if operation.loads:
        group_cycles["load"] = 1.0
    if operation.stores:
        group_cycles["store"] = 1.0
    if operation.kind in ("divide", "root"):
        group_cycles["divider"] = 10.0 if operation.packed else 5.0
    elif operation.kind in ("float", "vector", "shuffle"):
        group_cycles["vector"] = 1.0
    elif operation.kind in ("integer", "branch"):
        group_cycles["integer"] = 1.0
    return group_cycles


def latency(operation: Operation) -> float:
    """Return the latency on a Neoverse N1, in cycles."""
    base = {
        "float": 3.0,
        "divide": 10.0,
        "root": 10.0,
        "vector": 2.0,
        "shuffle": 2.0,
        "gather": 10.0,
        "integer": 1.0,
    }
    return base.get(operation.kind, 0.0)


NEOVERSE = Core(
    "Neoverse N1",
    "Arm, Neoverse N1 Software Optimization Guide, by class of instruction; other cores differ",
    4,
    {"load": 2, "store": 1, "divider": 1, "vector": 2, "integer": 3},
    groups,
    latency,
    5.0,
)
AARCH64 = InstructionSet("aarch64", kind, has_frame, read, NEOVERSE)
