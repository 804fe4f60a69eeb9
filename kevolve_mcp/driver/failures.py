"""Errors that crossed MCP, as the exceptions they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kevolve_mcp.actions import read_actions
from kevolve_mcp.errors import KEvolveError, UsageError

# of the server's border: the caller can fix them
ARGUMENT_CODES = frozenset({"bad_arguments", "unknown_tool"})


def from_result(text: str, data: Mapping[str, Any]) -> KEvolveError:
    """Return the KEvolveError of an error result: its class by `code`, message, hint and actions as
    they were; the text where there are none."""
    if "message" not in data:
        return KEvolveError(text.strip() or "the server reported an error without words")
    code = data.get("code")
    fallback = UsageError if code in ARGUMENT_CODES else KEvolveError
    cls = next((c for c in _classes(KEvolveError) if c.code == code), fallback)
    actions = read_actions(data.get("actions"))
    return cls(str(data["message"]), str(data.get("hint", "")), *actions)


def _classes(cls: type[KEvolveError]) -> Iterator[type[KEvolveError]]:
    yield cls
    for inner in cls.__subclasses__():
        yield from _classes(inner)
