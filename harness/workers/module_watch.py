"""What calls of a reference change in its module: parameters, buffers, and plain attributes.

A candidate is compared in its parameters and buffers, by name. It need not have the plain
attributes of a reference, so nothing compares these.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from . import modules, tensor_relations

MOST_COPIED_BYTES = 1 << 30  # of parameters; larger ones are compared by their version counters


class ModuleWatch:
    """Finds what calls of a model change, in place or by a new tensor. Parameters and buffers are
    compared by value: neither kernels that update running averages nor assignments to `data` always
    raise the version counter."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._parameters = _parameters(model)
        self._versions = {name: value._version for name, value in self._parameters.items()}
        nbytes = sum(value.nbytes for value in self._parameters.values())
        self._copies: dict[str, Any] = {}
        if nbytes <= MOST_COPIED_BYTES:
            self._copies = {n: each.detach().clone() for n, each in self._parameters.items()}
        self._buffers = {name: value.clone() for name, value in modules.buffers(model).items()}
        self._attributes = attributes(model)

    def updated(self) -> list[str]:
        """Return the names of what was updated: parameters, then buffers."""
        present = _parameters(self.model)
        parameters = [
            name
            for name, value in self._parameters.items()
            if value._version != self._versions[name]
            or present.get(name) is not value
            or (name in self._copies and not _equal(self._copies[name], present[name].detach()))
        ]
        return parameters + changes(self._buffers, modules.buffers(self.model))

    def reshaped(self) -> list[str]:
        """Return the names of buffers that came, went, or got another shape or dtype."""
        before, after = self._buffers, modules.buffers(self.model)
        return [
            name
            for name in {**before, **after}
            if not (name in before and name in after and _alike(before[name], after[name]))
        ]

    def changed_attributes(self) -> list[str]:
        """Return the names of plain attributes that were changed."""
        return changes(self._attributes, attributes(self.model))


def attributes(model: Any) -> dict[str, Any]:
    """Return copies of the plain attributes of a model and its parts, by name: tensors, numbers,
    texts, and containers and objects with these. {} for a function."""
    import torch

    if isinstance(model, types.FunctionType):
        return {}
    usual = vars(torch.nn.Module()).keys() if _is_module(model) else ()
    # what the watch of parameters and buffers sees
    seen = {id(t) for t in (*_parameters(model).values(), *modules.buffers(model).values())}
    return {
        f"{prefix}.{name}" if prefix else name: _copy(value, seen)
        for prefix, part in (model.named_modules() if _is_module(model) else [("", model)])
        for name, value in getattr(part, "__dict__", {}).items()
        if name not in usual
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of values that differ, or that only one has."""
    return [
        name
        for name in {**before, **after}
        if name not in before or name not in after or not _equal(before[name], after[name])
    ]


def _parameters(model: Any) -> dict[str, Any]:
    return dict(model.named_parameters()) if _is_module(model) else {}


def _is_module(model: Any) -> bool:
    return hasattr(model, "named_parameters")


def _alike(one: Any, other: Any) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def _copy(value: Any, seen: set[int]) -> Any:
    """Return a copy that later changes do not reach. seen: ids of objects that are left out; more
    are added, since objects may refer to each other."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if id(value) in seen or isinstance(value, (type, types.ModuleType)) or _is_module(value):
        return None
    seen.add(id(value))
    if hasattr(value, "data_ptr"):
        return value.detach().clone()
    if hasattr(value, "tobytes"):  # of numpy
        return value.tobytes()
    if isinstance(value, dict):
        return {repr(key): _copy(each, seen) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, Sequence):
        return {str(number): _copy(each, seen) for number, each in enumerate(value)}
    if hasattr(value, "__dict__") and not callable(value):
        return {name: _copy(each, seen) for name, each in vars(value).items()}
    return None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return not changes(one, other)
    if hasattr(one, "data_ptr") and hasattr(other, "data_ptr"):
        return _alike(one, other) and tensor_relations.same(one, other)
    return type(one) is type(other) and bool(one == other or (one != one and other != other))
