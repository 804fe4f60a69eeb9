"""Values of `kevolve_mcp.api` read from structured content. Unknown fields are ignored, so that an
older driver works with a newer server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_type_hints

from harness.types import Budget, CodecError, Spent, from_json
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import KEvolveError

T = TypeVar("T")
UNLIMITED = Budget()
NOTHING_SPENT = Spent()


class UnreadableAnswer(KEvolveError):
    """The server's answer cannot be read by this driver."""

    code = "unreadable_answer"


@dataclass(frozen=True)
class Told(api.Evaluated):
    """The answer to kernel_submit, which always has a node."""

    node: api.Node = field(kw_only=True)


def read(cls: type[T], data: object, where: str = "") -> T:
    """Read a `cls` from structured content, dropping unknown fields at every level. Raises
    UnreadableAnswer naming the field."""
    try:
        return from_json(cls, _known(cls, data))
    except CodecError as error:
        raise UnreadableAnswer(
            f"the server's answer{f' to {where}' if where else ''} cannot be read: {error}",
            "Driver and server have different versions.",
            Action("describe_targets", "shows this machine's"),
        ) from None


def _known(kind: Any, data: Any) -> Any:
    """`data` without the keys that the dataclass `kind` (or one inside it) does not have."""
    if isinstance(data, Mapping) and (hints := _hints(kind)):
        return {key: _known(hints[key], value) for key, value in data.items() if key in hints}
    for inner in getattr(kind, "__args__", ()):
        if isinstance(data, (list, tuple)) and dataclasses.is_dataclass(inner):
            return [_known(inner, item) for item in data]
        if isinstance(data, Mapping) and dataclasses.is_dataclass(inner):
            return _known(inner, data)
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of its fields; none if it is not a dataclass."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}
