"""The contents of the JSON and text columns of asks and nodes: annotations of policies and, under
reserved names, typed values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.types import from_json, to_json
from kevolve_mcp.search.node import Meeting
from kevolve_mcp.search.provenance import NOBODY, AuthorId, LentKernel, Origin, StartKernel
from kevolve_mcp.search.tree import Expansion

from .records import NewNode

T = TypeVar("T")
WHY, START, LENT, AUTHOR, MET = "why", "start", "lent", "author", "met"


@dataclass(frozen=True)
class AskNotes:
    annotations: dict[str, Any]
    why: str
    start: StartKernel | None
    lent: LentKernel | None


@dataclass(frozen=True)
class NodeNotes:
    annotations: dict[str, Any]
    author: AuthorId
    met: Meeting | None


def of_expansion(expansion: Expansion) -> dict[str, Any]:
    """Return the column of a new ask."""
    return {
        **expansion.annotations,
        **_noted(WHY, expansion.why or None),
        **_noted(START, expansion.start),
        **_noted(LENT, expansion.lent),
    }


def of_ask(column: Mapping[str, Any]) -> AskNotes:
    return AskNotes(
        _others(column, WHY, START, LENT),
        str(column.get(WHY, "")),
        _value(StartKernel, column, START),
        _value(LentKernel, column, LENT),
    )


def of_new_node(new: NewNode) -> dict[str, Any]:
    """Return the column of a new node."""
    return {**new.annotations, **_noted(AUTHOR, new.author), **_noted(MET, new.met)}


def of_node(column: Mapping[str, Any]) -> NodeNotes:
    return NodeNotes(
        _others(column, AUTHOR, MET),
        _value(AuthorId, column, AUTHOR) or NOBODY,
        _value(Meeting, column, MET),
    )


def author_text(author: AuthorId) -> str:
    """Return a text that is equal for equal authors, so that the column can be compared."""
    return "" if author == NOBODY else json.dumps(to_json(author), sort_keys=True)


def author_of(column: str) -> AuthorId:
    return from_json(AuthorId, json.loads(column)) if column else NOBODY


def origin_text(origin: Origin | None) -> str | None:
    return None if origin is None else json.dumps(to_json(origin), sort_keys=True)


def origin_of(column: str | None) -> Origin | None:
    return None if column is None else from_json(Origin, json.loads(column))


def _noted(name: str, value: object) -> dict[str, Any]:
    return {} if value is None else {name: to_json(value)}


def _value(kind: type[T], column: Mapping[str, Any], name: str) -> T | None:
    return from_json(kind, column[name]) if name in column else None


def _others(column: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in column.items() if key not in names}
