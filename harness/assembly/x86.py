"""Instructions of x86-64 in AT&T syntax, and their cost on a core like Skylake-SP."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .listing import Instruction
from .operations import Core, InstructionSet, Kind, Operation

_REGISTER = re.compile(r"%(\w+)")
_MEMORY = re.compile(r"(?:%[fg]s:)?(-?(?:0x)?[0-9a-f]*)\(([^)]*)\)")
_FLOAT = re.compile(
    r"^v?(?:f?n?m(?:add|sub)(?:add|sub)?(?:132|213|231)|add|sub|mul|max|min|addsub|hadd|rcp(?:14)?|"
    r"rsqrt(?:14)?|"
    r"cmp\w*|range|reduce|round|rndscale|scalef|getexp|getmant|fixupimm|cvt\w*2|dp)([ps])[sdh]$"
)
_DIVIDE = re.compile(r"^v?(div|sqrt)([ps])[sdh]$")
_COMPARE = re.compile(r"^(?:cmp[bwlq]?$|test|v?u?comi|v?ptest|vtestp|bt[wlq]?$)")
_BITWISE = re.compile(r"^v?(?:and|andn|or|xor)p[sd]$")
_SHUFFLE = re.compile(
    r"^v?(?:shuf|perm|unpck|punpck|pshuf|ppermt|pack|palign|valign|insert|extract|pinsr|pextr|"
    r"blend|pblend|pperm|movhlps|movlhps|expand|compress|psll?dq)"
)
_MOVE = re.compile(r"^v?(?:mov|lddqu|maskmov|broadcast|cmov)")
# instructions that use one element of a vector register
_SINGLE = re.compile(r"s[sdh]$|s[sd]2u?si|si2s[sd]|^v?mov[dq]$|comis|[ps]extr|pinsr")
# instructions that write their last operand without reading it
_ONLY_WRITES = re.compile(r"^v?(?:mov|extract|pextr|p?compress|cvtps2ph|pmov)|^set")
_SIZES, _INTEGERS = {"s": 32, "d": 64, "h": 16}, {"b": 8, "w": 16, "d": 32, "q": 64}
_STACK, _FRAME = "rsp", "rbp"
_BRANCHLIKE: dict[str, Kind] = {
    "jmp": "jump",
    "jmpq": "jump",
    "ret": "return",
    "retq": "return",
    "ud2": "return",
    "hlt": "return",
}


def kind(name: str) -> Kind:
    """See InstructionSet."""
    if name in _BRANCHLIKE:
        return _BRANCHLIKE[name]
    if name.startswith(("j", "loop")):
        return "branch"
    if name.startswith("call"):
        return "call"
    if name.startswith(("nop", "endbr", "prefetch", "vzero")):
        return "nothing"
    if "gather" in name:
        return "gather"
    if match := _DIVIDE.match(name):
        return "divide" if match.group(1) == "div" else "root"
    if name.startswith(("div", "idiv")):
        return "divide"
    if _BITWISE.match(name):
        return "vector"
    if _FLOAT.match(name) or "comis" in name:
        return "float"
    if _SHUFFLE.match(name):
        return "shuffle"
    if _MOVE.match(name):
        return "move"
    return "vector" if re.match(r"v|p(?!ush|op|dep|ext)|cvt|k", name) else "integer"


def has_frame(code: tuple[Instruction, ...]) -> bool:
    """Return whether %rbp is a frame pointer, which is so only if the function sets it up."""
    return any(
        i.name.startswith("mov") and i.operands.replace(" ", "") == "%rsp,%rbp" for i in code[:40]
    )


def read(instruction: Instruction, frame: bool) -> Operation:
    """See InstructionSet."""
    name, what = instruction.name, kind(instruction.name)
    if what in ("nothing", "jump", "branch", "call", "return"):
        return Operation(what)
    parts = _split(instruction.operands)
    memory = next((m for m in map(_MEMORY.search, parts) if m), None)
    stores = (
        bool(parts) and "(" in parts[-1] and not _COMPARE.match(name) and not name.startswith("lea")
    )
    loads = (
        memory is not None
        and not name.startswith("lea")
        and not (stores and _ONLY_WRITES.match(name))
    )
    register = max((_bits(r) for r in _REGISTER.findall(instruction.operands)), default=0)
    number, division = _FLOAT.match(name), _DIVIDE.match(name)
    packed = bool(number and number.group(1) == "p") or bool(division and division.group(2) == "p")
    reads, writes = _flow(name, what, parts, stores)
    return Operation(
        kind=what,
        packed=packed,
        scalar=what in ("float", "divide", "root") and not packed and register >= 128,
        bits=register if _decides(name, what, register, memory is not None) else 0,
        element=_element(name),
        register=register,
        loads=loads,
        stores=stores,
        slot=memory.group(0)
        if memory is not None and (loads or stores) and _on_stack(memory.group(2), frame)
        else "",
        reads=reads,
        writes=writes,
        addresses=_registers(memory.group(2)) if memory is not None else (),
    )


def _decides(name: str, what: Kind, register: int, memory: bool) -> bool:
    """Return whether the instruction shows the vector width of a loop. Scalar code, too, copies and
    clears whole registers."""
    if _SINGLE.search(name) or what not in ("float", "divide", "root", "vector", "gather", "move"):
        return False
    return memory if what == "move" else not (register == 128 and _BITWISE.match(name))


def _flow(
    name: str, what: Kind, parts: list[str], stores: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that are read and those that are written. The last operand is the
    result; many instructions also read it."""
    if not parts:
        return (), ()
    if len(parts) == 3 and parts[0] == parts[1] and "xor" in name:
        return (), _registers(parts[2])  # clears a register without depending on its value
    if _COMPARE.match(name) or stores:
        return tuple(r for part in parts for r in _values(part)), ()
    if name.startswith("lea"):
        return _registers(parts[0]), _registers(parts[1])
    old_form = not name.startswith("v") and what != "move"
    keeps = (
        old_form or "fm" in name or "fnm" in name or ("{%k" in parts[-1] and "{z}" not in parts[-1])
    )
    read = parts if keeps else parts[:-1]
    return tuple(r for part in read for r in _values(part)), _registers(parts[-1].split("{")[0])


def _split(operands: str) -> list[str]:
    """Split operands at commas outside parentheses."""
    return [p.strip() for p in re.split(r",(?![^(]*\))", operands)] if operands else []


def _on_stack(inside: str, frame: bool) -> bool:
    base = inside.split(",")[0].strip().lstrip("%")
    return base == _STACK or (frame and base == _FRAME)


def _bits(register: str) -> int:
    return {"x": 128, "y": 256, "z": 512}.get(register[0], 0) if register[1:3] == "mm" else 0


def _registers(text: str) -> tuple[str, ...]:
    """Return the registers in a text, with one name for all sizes of each."""
    return tuple(_whole(r) for r in _REGISTER.findall(text))


def _values(text: str) -> tuple[str, ...]:
    """Return the registers in an operand, without those that form an address."""
    return _registers(_MEMORY.sub("", text))


def _whole(register: str) -> str:
    if register[1:3] == "mm":
        return f"v{register[3:]}"
    if match := re.match(r"(r\d+)[dwb]?$", register):
        return match.group(1)
    core = register.removeprefix("r").removeprefix("e")
    return (
        core.removesuffix("l") + "x"
        if len(core) == 2 and core[1] == "l" and core[0] in "abcd"
        else core.removesuffix("l")
    )


def _element(name: str) -> int:
    """Return the bits of an element, from the last letters of the name; 0 if they do not tell."""
    if match := re.search(r"[ps]([sdh])$|dq[ua](\d+)$", name):
        return _SIZES[match.group(1)] if match.group(1) else int(match.group(2))
    if match := re.match(r"v?p(?!and$|or$|xor$|andn$)\w*([bwdq])$", name):
        return _INTEGERS[match.group(1)]
    return 0


_DIVIDES = {
    128: 3.0,
    256: 5.0,
    512: 10.0,
}  # reciprocal throughput of divps by bits; doubles take 1.6 times as long, roots 1.2 times


def groups(operation: Operation) -> Mapping[str, float]:
    """Return the reciprocal throughputs of a Skylake-SP."""
    group_cycles: dict[str, float] = {}
    if operation.loads:
        group_cycles["load"] = 1.0
    if operation.stores:
        group_cycles["store"] = 1.0
    match operation.kind:
        case "divide" | "root":
            cycles = _DIVIDES.get(operation.register, 25.0) * (
                1.6 if operation.element == 64 else 1.0
            )
            group_cycles["divider"] = cycles * (1.2 if operation.kind == "root" else 1.0)
        case "float" | "vector":
            group_cycles["vector"] = 1.0
        case "shuffle":
            group_cycles["shuffle"] = 1.0
        case "gather":
            group_cycles["load"] = float(max(2, operation.register // (operation.element or 32)))
        case "integer" | "branch":
            group_cycles["integer"] = 1.0
    return group_cycles


def latency(operation: Operation) -> float:
    """Return the latency on a Skylake-SP, in cycles."""
    base = {
        "float": 4.0,
        "divide": 11.0,
        "root": 12.0,
        "vector": 1.0,
        "shuffle": 2.0,
        "gather": 20.0,
        "integer": 1.0,
        "move": 0.0,
    }.get(operation.kind, 0.0)
    if operation.kind == "divide" and not operation.register:
        base = 26.0
    return base


SKYLAKE = Core(
    "a core like Skylake-SP",
    "Agner Fog, Instruction tables, and Intel's optimization manual, by class of instruction",
    4,
    {"load": 2, "store": 1, "divider": 1, "vector": 2, "shuffle": 1, "integer": 4},
    groups,
    latency,
    5.0,
)
X86 = InstructionSet("x86-64", kind, has_frame, read, SKYLAKE)
