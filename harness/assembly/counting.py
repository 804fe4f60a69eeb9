"""Instruction counts of a piece of code, and the width of its vectors. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .listing import Instruction
from .operations import Operation

FACTS = (
    "instructions", "packed", "avx", "scalar", "zmm", "ymm", "xmm_packed", "gathers", "divisions",
    "branches", "calls", "math_calls", "spills", "reloads", "stack_copies",
)  # fmt: skip
_MATH = re.compile(
    r"_*(?:exp|log|pow|tanh?|sinh?|cosh?|sincos|erfc?|asinh?|acosh?|atan[2h]?|[lt]gamma|cbrt|hypot|"
    r"fmod)(?:2|10|m1|1p|b)?[fl]?(?:_finite)?"
)


def count(code: Sequence[Instruction], operations: Sequence[Operation]) -> dict[str, float]:
    """Count the FACTS. packed, scalar: floating-point instructions; avx: packed ones in the
    three-operand form; zmm, ymm, xmm_packed: packed ones by register. divisions: with square roots,
    scalar and packed. math_calls: calls of scalar library functions such as exp. spills: stores to
    the stack; reloads: loads from it; stack_copies: stores to the stack of values that were loaded
    unchanged from elsewhere."""
    facts = dict.fromkeys(FACTS, 0.0)
    facts["instructions"] = float(len(code))
    untouched: set[str] = set()  # registers that hold an unchanged loaded value
    for instruction, o in zip(code, operations, strict=True):
        facts["packed"] += o.packed
        facts["avx"] += o.packed and instruction.name.startswith("v")
        facts["scalar"] += o.scalar
        if o.packed:
            facts[{512: "zmm", 256: "ymm"}.get(o.register, "xmm_packed")] += 1
        facts["gathers"] += o.kind == "gather"
        facts["divisions"] += o.kind in ("divide", "root")
        facts["branches"] += o.kind == "branch"
        facts["calls"] += o.kind == "call"
        facts["math_calls"] += o.kind in ("call", "jump") and any(
            _MATH.fullmatch(name) for name in instruction.names
        )
        if o.slot and o.stores:
            copied = o.kind == "move" and any(r in untouched for r in o.reads)
            facts["stack_copies" if copied else "spills"] += 1
        facts["reloads"] += bool(o.slot and o.loads)
        if o.kind == "move" and o.loads and not o.slot:
            untouched.update(o.writes)
        else:
            untouched.difference_update(o.writes)
    return facts


def width(operations: Sequence[Operation]) -> tuple[int, int]:
    """Return (bits, lanes) of the widest vectors that the code computes with or moves through
    memory: (0, 1) for scalar code, lanes 0 where the element size is unknown, bits -1 where the
    width depends on the device."""
    if any(o.bits < 0 for o in operations):
        return -1, 0
    bits = max((o.bits for o in operations), default=0)
    if not bits:
        return 0, 1
    widest = [o for o in operations if o.bits == bits]
    sizes = Counter(o.element for o in widest if o.element and o.packed) or Counter(
        o.element for o in widest if o.element
    )
    return bits, bits // sizes.most_common(1)[0][0] if sizes else 0


def total(loops: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(facts.get(name, 0.0) for facts in loops) for name in FACTS}
