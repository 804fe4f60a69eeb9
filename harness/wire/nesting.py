"""Structures of lists, tuples, named tuples and dicts with tensors in them, as the arguments of a
task may be. One traversal serves all uses, so that a tensor has the same number everywhere."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any


def tensors_of(value: Any) -> list[Any]:
    """Return the tensors of a structure, in the order of its layout."""
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_of(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_of(v)]
    return [value] if hasattr(value, "data_ptr") else []


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the structure with change(tensor) for each tensor, called in the order of its layout.
    Containers are new; other leaves are kept."""
    if hasattr(value, "data_ptr"):
        return change(value)
    if isinstance(value, dict):
        return {k: map_tensors(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [map_tensors(v, change) for v in value]
    if isinstance(value, tuple):
        inside = (map_tensors(v, change) for v in value)
        return type(value)._make(inside) if hasattr(value, "_make") else tuple(inside)
    return value


def replace_tensors(value: Any, tensors: Iterable[Any]) -> Any:
    """Return the structure with these tensors, given in the order of its layout."""
    replacements = iter(tensors)
    return map_tensors(value, lambda _: next(replacements))


def fields_of(value: Any) -> tuple[str, ...]:
    """Return the field names of a named tuple or of a framework result (torch.max(x, dim) has
    values and indices); () for a plain tuple."""
    kind = type(value)
    if not isinstance(value, tuple) or kind is tuple:
        return ()
    names = tuple(getattr(kind, "_fields", getattr(kind, "__match_args__", ())))
    return names if len(names) == len(value) else ()


def named_tuple(fields: Iterable[str], values: Iterable[Any]) -> Any:
    """Build a named tuple. One that was sent to a worker keeps its fields but not its methods."""
    return _kind(tuple(fields))._make(values)


@functools.lru_cache(64)
def _kind(fields: tuple[str, ...]) -> Any:
    # rename: the task's own named tuple may have been created with it
    return namedtuple("Named", fields, rename=True)
