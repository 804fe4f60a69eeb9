"""The shapes of this package in the list of tools. docs/reference/ publishes the whole JSON Schema
of an evaluation. The list only has an outline, since every client pays for it on each
connection."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Collection
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]
SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def outline(kind: Any, opened: Collection[str] = (), path: str = "") -> Schema:
    """Return the JSON Schema of a type without explanations.

    Args:
        kind: A frozen class of this package, or the type of one of its fields.
        opened: The fields whose own fields are listed, as paths such as "evaluation.cases"; others
            have only their type.
        path: The path of `kind`; "" for the whole, which is always opened.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _either([outline(option, opened, path) for option in inner])
    if origin is Literal:
        return {"type": "string"}
    if origin is tuple:
        items = outline(inner[0], opened, path)
        return {"type": "array", "items": items} if "properties" in items else {"type": "array"}
    if dataclasses.is_dataclass(kind) and (not path or path in opened):
        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        fields = {n: outline(hints[n], opened, f"{path}.{n}".strip(".")) for n in names}
        return {"type": "object", "properties": fields}
    return {"type": SCALARS.get(kind, "object")}


def _either(options: list[Schema]) -> Schema:
    """Return one schema for a value of several types."""
    whole = {key: item for option in options for key, item in option.items()}
    kinds = list(dict.fromkeys(option["type"] for option in options))
    return whole | {"type": kinds[0] if len(kinds) == 1 else kinds}
