"""JSON in and out for the frozen dataclasses of this package.

`from_json` inverts `to_json` for every type that the package exports. Unknown keys are an error, so
that a difference in protocol is reported where data come in and not three calls later.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


class CodecError(ValueError):
    """The data do not fit the type. The message names the field."""


def to_json(value: Any) -> Any:
    """Convert a value recursively to plain dicts, lists, strings and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(v) for v in value]
    return value


def from_json(cls: type[T], data: Any) -> T:
    """Rebuild `cls` from `to_json`'s output. Raises CodecError naming the field that does not
    fit."""
    return typing.cast(T, _decode(cls, data, cls.__name__))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return data
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, where)
    if origin is typing.Literal:
        return _check(data in typing.get_args(kind), data, where, f"one of {typing.get_args(kind)}")
    if origin is tuple:
        _check(isinstance(data, (list, tuple)), data, where, "a list")
        item, *items = typing.get_args(kind)
        if items == [Ellipsis]:
            return tuple(_decode(item, v, f"{where}[{i}]") for i, v in enumerate(data))
        kinds = (item, *items)
        _check(len(data) == len(kinds), data, where, f"a list of {len(kinds)}")
        return tuple(
            _decode(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, data, strict=True))
        )
    if origin is list:
        _check(isinstance(data, (list, tuple)), data, where, "a list")
        (item,) = typing.get_args(kind)
        return [_decode(item, v, f"{where}[{i}]") for i, v in enumerate(data)]
    if origin is dict:
        _check(isinstance(data, dict), data, where, "an object")
        _, item = typing.get_args(kind)
        return {k: _decode(item, v, f"{where}.{k}") for k, v in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast(type, kind), data, where)
    return _decode_scalar(kind, data, where)


def _decode_union(options: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in options:
        return None
    problem: CodecError | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return _decode(option, data, where)
        except CodecError as error:
            problem = error
    raise problem or CodecError(f"{where}: null is not accepted")


def _decode_dataclass(cls: type, data: Any, where: str) -> Any:
    _check(isinstance(data, dict), data, where, "an object")
    hints = _hints(cls)
    fields = {f.name for f in dataclasses.fields(cls) if f.init}
    if unknown := sorted(set(data) - fields):
        raise CodecError(
            f"{where}: unknown field {unknown[0]!r}; known: {', '.join(sorted(fields))}"
        )
    values = {name: _decode(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise CodecError(f"{where}: {error}") from error


def _decode_scalar(kind: Any, data: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError as error:
            raise CodecError(f"{where}: {error}") from error
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError as error:
            raise CodecError(f"{where}: {error}") from error
    if kind in (int, float) and isinstance(data, bool):
        raise CodecError(f"{where}: expected a number, got {data!r}")
    return _check(isinstance(data, kind), data, where, getattr(kind, "__name__", str(kind)))


def _check(ok: bool, data: Any, where: str, expected: str) -> Any:
    if not ok:
        raise CodecError(f"{where}: expected {expected}, got {data!r:.80}")
    return data
