"""Nested data as text for a reader, with the meaning of a stage's figures."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kevolve_mcp.synthesis.wording import said


def outlined(value: Any, depth: int = 0) -> list[str]:
    """Return nested data as lines: a name and its value, inner data indented, figures with four
    digits."""
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
            "the calls of a burst by the clock that gives the figure, and the lower bound by the "
            "judge's clock"
        ),
        "said_us": "the same by the process's own clock, if that differs; never used to judge",
        "nothing_us": (
            "an empty call, and the part of it spent inside the worker; on a CPU the figures of "
            "both sides include it"
        ),
        "ahead": (
            "how much longer unmeasured calls take, relative to the baseline's; the figure is "
            "multiplied by it"
        ),
        "alone": "the same for a single call, against one of several in a row on a device",
        "host_us": (
            "the host's time to queue a call on a device beyond an empty burst's, by the judge's "
            "clock: the candidate's, and the baseline's"
        ),
        "alone_host_us": "the same of a single call",
        "blocks": "by process: the machine before and after, what disturbed it, and the ratios",
        "samples": "where the measured rounds are kept for later measurements to join",
    },
    "profile": {
        "page_faults": "per call",
        "involuntary_switches": "how often the operating system took the core away during timing",
    },
}
"""Stage -> name in its data -> one sentence. Microseconds, by case."""


def legend(stage: str, names: Container[str]) -> list[str]:
    """Return a line for each of the names with an explanation."""
    lines = [f"  {name}: {text}" for name, text in MEANINGS.get(stage, {}).items() if name in names]
    return ["where", *lines] if lines else []
