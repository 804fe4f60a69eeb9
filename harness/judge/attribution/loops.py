"""The loops of a C++ candidate: the innermost loops of the functions that were called, the most
called first, as rows, counts and annotated assembly. Pure.

Iterations are not counted: that would take a sampler of the candidate's process, or another build.
What is known is how often Python called each function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...assembly import Body, Inside
from ...assembly.counting import total

LISTINGS_CHARS = 200_000  # of all listings of an evaluation together
MOST_ROWS = 64
ORDER = "the most called first; it is not known whether a loop in one of them ran at all"
PORTS = 4  # the busiest ones are shown


@dataclass(frozen=True)
class _LabelledBody:
    """A body with its label. counted: whether its instructions are part of the candidate's facts.
    calls: those of its function, or of the functions through which it is reached; None where
    nothing was called yet."""

    label: str
    function: str
    body: Body
    counted: bool
    facts: dict[str, float]
    calls: int | None


def describe(
    libraries: Mapping[str, Inside], call_counts: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return the data of a stage: "static" (counts over the loops), "loops" (rows), "listings"
    (label -> text), "loops_of" (the functions that are covered); {} where nothing was built.
    libraries: by the identity of their build. call_counts: calls by build and function; if empty,
    all functions that Python may call are covered."""
    if not libraries:
        return {}
    functions = {
        i: [n for n in call_counts.get(i, {}) if n in inside.functions]
        for i, inside in libraries.items()
    }
    any_called = any(functions.values())
    bodies = []
    for number, (identity, inside) in enumerate(libraries.items()):
        roots = (
            functions[identity]
            if any_called
            else [n for n, f in inside.functions.items() if f.exported] or list(inside.functions)
        )
        calls = _calls(inside, call_counts.get(identity, {})) if any_called else {}
        prefix = f"build {number + 1}: " if len(libraries) > 1 else ""
        bodies += _of_library(inside, roots, calls, prefix)
    bodies = sorted(bodies, key=lambda f: (not f.counted, -(f.calls or 0)))[:MOST_ROWS]
    loops = [f for f in bodies if f.body.loop]
    counted = [f.facts for f in bodies if f.counted]
    notes = "; ".join(dict.fromkeys(i.note for i in libraries.values() if i.note))
    tools = dict.fromkeys(i.disassembler for i in libraries.values() if i.disassembler)
    return {
        "loops_of": f"the functions that were called, {ORDER}"
        if any_called
        else "all functions that Python may call: no call was seen yet",
        "disassembler": ", ".join(tools),
        "static": {"loops": float(sum(f.counted for f in loops)), **total(counted)}
        if counted
        else {},
        "loops": [_row(f) for f in loops],
        "listings": _listings(bodies, notes),
        **({"loops_note": notes} if notes else {}),
    }


def _calls(inside: Inside, call_counts: Mapping[str, int]) -> dict[str, int]:
    """Return how often each function was called, or the functions through which it is reached."""
    counts: dict[str, int] = {}
    for root, count in call_counts.items():
        for name in _reachable(inside, [root]) if root in inside.functions else ():
            counts[name] = counts.get(name, 0) + count
    return counts


def _of_library(
    inside: Inside, roots: Sequence[str], calls: Mapping[str, int], prefix: str
) -> list[_LabelledBody]:
    reachable = _reachable(inside, roots)
    looping = {n for n in reachable if any(b.loop for b in inside.functions[n].bodies)}
    bodies, labels = [], dict[str, int]()
    for name in reachable:
        for body in inside.functions[name].bodies:
            inner = _reachable(inside, [n for n in body.calls if n in inside.functions])
            if body.loop and looping & set(inner) - {name}:
                continue  # it calls a function with a loop, so it is not innermost
            if not body.loop and looping:
                continue
            label = f"{prefix}{name}{f', line {body.line}' if body.line else ''}"
            labels[label] = labels.get(label, 0) + 1
            within = [
                b.facts
                for n in inner
                if n != name
                for b in inside.functions[n].bodies
                if not b.loop
            ]
            facts = total([body.facts, *within]) if body.loop else body.facts
            bodies.append(
                _LabelledBody(
                    f"{label} #{labels[label]}" if labels[label] > 1 else label,
                    name,
                    body,
                    not body.remainder,
                    facts,
                    calls.get(name),
                )
            )
    return bodies


def _reachable(inside: Inside, roots: Sequence[str]) -> list[str]:
    """Return the functions and all others of the library that they call or take the address of."""
    functions = dict.fromkeys(roots)
    waiting = list(roots)
    while waiting:
        for callee in inside.functions[waiting.pop()].refers:
            if callee in inside.functions and callee not in functions:
                functions[callee] = None
                waiting.append(callee)
    return list(functions)


def _row(entry: _LabelledBody) -> dict[str, Any]:
    body, facts = entry.body, entry.facts
    ports = sorted(body.pressure.items(), key=lambda p: -p[1])[:PORTS]
    row = {
        "loop": entry.label,
        "vector_bits": body.bits,
        "lanes": body.lanes,
        "instructions": int(facts["instructions"]),
        "cycles": None if body.cycles is None else round(body.cycles, 2),
        "limited_by": body.limit,
        "port_pressure": {name: round(cycles, 2) for name, cycles in ports},
        "estimated_by": body.by,
        "spills": int(facts["spills"]),
        "reloads": int(facts["reloads"]),
        "stack_copies": int(facts["stack_copies"]),
        "calls": int(facts["calls"]),
        "remainder": body.remainder,
        "function_calls": entry.calls,
    }
    return {**row, "summary": _summary(row)}


def _summary(row: Mapping[str, Any]) -> str:
    """Summarize one row for a reader."""
    width = {0: "scalar (1 lane)", -1: "scalable vectors (width depends on the device)"}.get(
        row["vector_bits"], f"{row['vector_bits']}-bit vectors ({row['lanes'] or 'unknown'} lanes)"
    )
    parts = [width, f"{row['instructions']} instructions"]
    if row["cycles"] is not None:
        without = ", calls not counted" if row["calls"] else ""
        parts.append(
            f"about {row['cycles']:g} cycles per iteration, limited by {row['limited_by']} "
            f"({row['estimated_by']}{without})"
        )
    stack = [
        f"{row[name]} {name.replace('_', ' ')}"
        for name in ("spills", "reloads", "stack_copies")
        if row[name]
    ]
    parts.append(", ".join(stack) or "no spills")
    if (calls := row["function_calls"]) is not None:
        parts.append(f"its function was called {calls:,} time{'' if calls == 1 else 's'}")
    if row["remainder"]:
        parts.append("a remainder or a rare case: not counted")
    return "; ".join(parts)


def _listings(bodies: Sequence[_LabelledBody], notes: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    room = LISTINGS_CHARS
    for f in bodies:
        head = (
            _row(f)["summary"]
            if f.body.loop
            else f"no loop; {int(f.facts['instructions'])} instructions"
        )
        pressure = ", ".join(f"{name} {cycles:.2f}" for name, cycles in f.body.pressure.items())
        lines = [
            f"; {head}",
            *([f"; cycles per iteration by port: {pressure}"] if pressure else []),
            f.body.text,
        ]
        text = "\n".join(lines)
        if len(text) <= room:
            texts[f.label] = text
            room -= len(text)
    if notes or not texts:
        texts["note"] = notes or "no function of the candidate was found in what was built"
    return texts
