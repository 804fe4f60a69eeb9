"""Errors that crossed MCP, as the exceptions they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kevolve_mcp.errors import KEvolveError, UsageError

# of the server's border: the caller can fix them
ARGUMENT_CODES = frozenset({"bad_arguments", "unknown_tool"})


def from_result(text: str, data: Mapping[str, Any]) -> KEvolveError:
    """The KEvolveError of an error result: its class by `code`, message and hint as they were; the
    text where there are none."""
    if "message" not in data:
        return KEvolveError(text.strip() or "the server reported an error without words")
    code = data.get("code")
    fallback = UsageError if code in ARGUMENT_CODES else KEvolveError
    cls = next((c for c in _classes(KEvolveError) if c.code == code), fallback)
    return cls(str(data["message"]), str(data.get("hint", "")))


def _classes(cls: type[KEvolveError]) -> Iterator[type[KEvolveError]]:
    yield cls
    for inner in cls.__subclasses__():
        yield from _classes(inner)
