"""Nested data as text for a reader."""

from __future__ import annotations

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
