"""How a node did against the best one, as its annotations keep it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.types import from_json, to_json
from kevolve_mcp.search.tree import Meeting

MET = "met"  # the annotation


def annotated(met: Meeting | None) -> dict[str, Any]:
    """What a new node's annotations keep of its meeting."""
    return {} if met is None else {MET: to_json(met)}


def noted(annotations: Mapping[str, Any]) -> Meeting | None:
    """The meeting that a node's annotations keep."""
    return from_json(Meeting, annotations[MET]) if MET in annotations else None
