"""Outputs that count comparisons: sums of truth values, and places of numbers among sorted ones.
Where some of the compared values are near a tie, each of these may fall on either side, so that any
whole number between two right ones is right. That does not hold for other whole numbers: places of
maxima, identifiers, or bits that are packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..wire.nesting import tensors_of
from . import decision_runs, decisions

_Kind = Literal["truth", "count"]

_AMONG_SORTED = ("searchsorted", "bucketize")
_TRUTHS = frozenset(decisions.COMPARISONS) - frozenset(_AMONG_SORTED)
# of truth values a truth value
_COMBINING = (
    "logical_and",
    "logical_or",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_not",
)
_ADDING = ("sum", "cumsum", "count_nonzero")
# what leaves a count a count; with one tensor, `sub` takes a number away
_PASSING = (
    "clone", "_to_copy", "contiguous", "cat", "stack", "clamp", "clamp_min", "clamp_max", "add",
)  # fmt: skip


def find(call: Callable[[Any], Sequence[Any]], inputs: Any) -> list[int]:
    """Return which outputs of call(inputs) are such counts."""
    from .watching_mode import WatchingMode, full_name

    kinds: dict[int, _Kind] = {}  # by storage

    class CountingMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = full_name(func).split(".")[1]
            given = [decision_runs.storage(t) for t in tensors_of([*args, *kwargs.values()])]
            result = self.run(func, args, kwargs)
            made = [decision_runs.storage(t) for t in tensors_of(result)]
            if made and set(made) <= set(given) and not name.endswith("_"):
                return result  # another view of the same
            kind = _kind_of(
                name.strip("_") if name != "_to_copy" else name, [kinds.get(s) for s in given]
            )
            if kwargs.get("alpha", 1) != 1:
                kind = None
            for tensor, storage in zip(tensors_of(result), made, strict=True):
                kinds.pop(storage, None)
                if kind and (kind == "truth" or tensor.element_size() >= 4):  # fewer bits may wrap
                    kinds[storage] = kind
            return result

    with CountingMode():
        outputs = call(inputs)
        return [n for n, t in enumerate(outputs) if kinds.get(decision_runs.storage(t)) == "count"]


def _kind_of(name: str, given: Sequence[_Kind | None]) -> _Kind | None:
    """Return what an operator makes of tensors of these kinds."""
    if name in _TRUTHS:
        return "truth"
    if name in _AMONG_SORTED:
        return "count"
    if not given or not all(given):
        return None
    if name in _ADDING:
        return "count"
    if name in _COMBINING:
        return "truth" if set(given) == {"truth"} else None
    if name in _PASSING or (name == "sub" and len(given) == 1):
        return "count" if "count" in given or name == "add" else "truth"
    return None
