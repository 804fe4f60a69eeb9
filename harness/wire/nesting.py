"""Structures of lists, tuples, named tuples and dicts with tensors in them: what arguments of a
task may be. One way to go through them, so that a tensor counts alike wherever it stands."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any


def tensors_of(value: Any) -> list[Any]:
    """The tensors of a structure, in the order of its layout."""
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_of(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_of(v)]
    return [value] if hasattr(value, "data_ptr") else []


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with change(tensor) for each tensor, called in the order of its layout.
    Containers are new, what is no tensor is the same."""
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
    """The same structure with these tensors, given in the order of its layout."""
    replacements = iter(tensors)
    return map_tensors(value, lambda _: next(replacements))


def fields_of(value: Any) -> tuple[str, ...]:
    """The names by which a tuple's parts are asked for, () for a plain one: those of a named tuple,
    or of what the framework returns (torch.max(x, dim) has values and indices)."""
    kind = type(value)
    if not isinstance(value, tuple) or kind is tuple:
        return ()
    names = tuple(getattr(kind, "_fields", getattr(kind, "__match_args__", ())))
    return names if len(names) == len(value) else ()


def named_tuple(fields: Iterable[str], values: Iterable[Any]) -> Any:
    """A named tuple: one that has crossed has its fields, and no methods of its own."""
    return _kind(tuple(fields))._make(values)


@functools.lru_cache(64)
def _kind(fields: tuple[str, ...]) -> Any:
    return namedtuple("Named", fields, rename=True)  # as a task's own may have been
