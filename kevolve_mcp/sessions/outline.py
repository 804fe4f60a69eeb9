"""Nested data as text for a reader, and what the figures of a stage mean in it."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kevolve_mcp.synthesis.wording import said


def outlined(value: Any, depth: int = 0) -> list[str]:
    """The lines of nested data for a reader: a name and its value, what lies inside indented;
    figures to four digits."""
    indent = "  " * depth
    if isinstance(value, dict):
        lines = []
        for name, inner in value.items():
            nested = isinstance(inner, (dict, list)) and not _is_flat(inner)
            if nested:
                lines += [f"{indent}{name}:", *outlined(inner, depth + 1)]
            else:
                lines.append(f"{indent}{name}: {_flat(inner)}")
        return lines
    if _is_flat(value):
        return [f"{indent}{_flat(value)}"]
    items = [outlined(item, depth + 1) for item in value]
    return [
        line
        for first, *others in filter(None, items)
        for line in (f"{indent}- {first.lstrip()}", *others)
    ]


def _is_flat(value: Any) -> bool:
    if isinstance(value, dict):
        return not value
    return not isinstance(value, list) or not any(isinstance(v, (dict, list)) for v in value)


def _flat(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_flat, value)) or "none"
    if isinstance(value, dict) or value in (None, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else said(str(value))


MEANINGS: dict[str, dict[str, str]] = {
    "time": {
        "processes": "fresh processes of the candidate",
        "clocks_us": (
            "the calls of a burst, by the clock that gives the figure, and the least that the "
            "judge's clock saw of them"
        ),
        "said_us": "the same by the process's own clock, where that is another one: never judged",
        "nothing_us": (
            "a call that does nothing, and the part of it that passes inside the worker; on a CPU "
            "the figures of both sides include it"
        ),
        "ahead": (
            "how many times as long calls take that are not measured, beyond what the baseline's "
            "do; the figure is multiplied by it"
        ),
        "alone": "the same of a call alone, against one of several in a row on a device",
        "blocks": "by process: the machine before and after, what disturbed it, and the ratios",
        "samples": "where the measured rounds are kept, so that later ones can join them",
    },
    "profile": {
        "page_faults": "of a call",
        "involuntary_switches": "times the kernel took the core away while it was timed",
    },
}
"""Stage -> name in its data -> one sentence. Microseconds, by case."""


def legend(stage: str, names: Container[str]) -> list[str]:
    """A line for each of the names that has a meaning."""
    lines = [f"  {name}: {text}" for name, text in MEANINGS.get(stage, {}).items() if name in names]
    return ["where", *lines] if lines else []
