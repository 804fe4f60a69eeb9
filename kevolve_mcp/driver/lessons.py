"""One sentence about what a node showed; pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kevolve_mcp.quantities import speedup
from kevolve_mcp.synthesis.wording import one_line, said

from .answers import Told

WHY = (
    "memory_bound",
    "compute_bound",
    "latency_bound",
    "launch_bound",
    "allocation_bound",
    "near_roofline",
)


def lesson(reply: Told, parent_params: Mapping[str, Any] | None = None) -> str:
    """Return what a node shows against its parent: which change, by how much, what bounds it,
    whether the prediction held.

    parent_params: the first parent's parameters, to name only what changed.
    """
    node = reply.node
    if node.status != "correct":
        return (
            f"{change(reply, parent_params)}: {node.status}: "
            f"{_first_sentence(reply.evaluation.message)}"
        )
    effect = node.versus_parent if node.versus_parent is not None else node.fitness
    against = "its parent" if node.versus_parent is not None else "the strongest baseline"
    parts = [
        f"{change(reply, parent_params)}: "
        + (f"{speedup(effect)} {against}" if effect else "correct, not timed")
    ]
    if bound := next((s for s in reply.evaluation.signals if s.name in WHY), None):
        parts.append(said(bound.message) or bound.name.replace("_", " "))
    if (verdict := prediction(node.predicted_speedup, effect)) is not None:
        parts.append(verdict)
    return "; ".join(parts)


def change(reply: Told, parent_params: Mapping[str, Any] | None) -> str:
    """Return what was changed: the origin of a start, the changed parameters, or the hypothesis."""
    node = reply.node
    if node.origin:
        return f"start from {node.origin}"
    if parent_params is not None and node.params:
        changed = {k: v for k, v in node.params.items() if parent_params.get(k) != v}
        if changed:
            return ", ".join(f"{k}={v}" for k, v in changed.items())
    return _first_sentence(node.hypothesis) or node.role


def prediction(predicted: float | None, observed: float | None) -> str | None:
    """Return whether a predicted effect came true, None where nothing was predicted or measured."""
    if not predicted or not observed:
        return None
    verdict = "as predicted" if (predicted > 1) == (observed > 1) else "against the prediction"
    return f"{verdict} ({speedup(predicted)})"


def _first_sentence(text: str, limit: int = 140) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return one_line(line.split(". ")[0].rstrip("."), limit)
