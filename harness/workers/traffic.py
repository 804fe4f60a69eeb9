"""The number of bytes of its inputs and parameters that one call of the reference has to read."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

# Operators that pick rows of their first argument along one axis -> position of the indices.
_ROWS = {"embedding": 1, "_embedding_bag": 1, "_embedding_bag_forward_only": 1, "index_select": 2}
# Operators that pick one element of their first argument for each element of the result.
_ELEMENTS = frozenset({"gather", "take", "index", "masked_select"})
_UNREAD = ("_like", "is_same_size")  # endings of operators that read shapes but not contents


class Reads:
    """Counts the bytes read by operators inside the `with` block. leaves: the tensors of interest.

    A tensor counts at most with its own size, however often it is read. Of a lookup table only the
    rows that an operator picks count, each once; of a view only its elements. A tensor that no
    operator read counts in full: code that the framework does not dispatch may have read it.
    """

    def __init__(self, leaves: Sequence[Any]) -> None:
        extents: dict[int, int] = {}
        for leaf in leaves:
            if _lies(leaf) and leaf.numel():
                extents[leaf.data_ptr()] = max(extents.get(leaf.data_ptr(), 0), _extent(leaf))
        self._leaves = sorted(extents.items())
        self._starts = [start for start, _ in self._leaves]
        self._read = [0] * len(self._leaves)
        self._mode: Any = None

    def __enter__(self) -> Reads:
        from torch.utils._python_dispatch import _disable_current_modes

        from .watching_mode import WatchingMode, is_higher_order

        watch = self._watch

        class ReadsMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
            def __torch_dispatch__(
                self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = self.run(func, args, kwargs or {})
                if is_higher_order(func):  # the operators inside tell what they read
                    return result
                with _disable_current_modes():  # operators of the counting itself do not count
                    watch(func, (*args, *(kwargs or {}).values()), result)
                return result

        self._mode = ReadsMode()
        self._mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._mode.__exit__(*details)

    @property
    def nbytes(self) -> int:
        """The bytes that had to be read."""
        return sum(
            min(nbytes, read) if read else nbytes
            for (_, nbytes), read in zip(self._leaves, self._read, strict=True)
        )

    def _watch(self, func: Any, arguments: tuple[Any, ...], result: Any) -> None:
        name = func.overloadpacket.__name__
        if name.endswith(_UNREAD) or name.startswith("new_") or _is_view(func):
            return
        lookup_bytes = _lookup_bytes(name, arguments, result)
        for place, tensor in enumerate(_tensors(arguments)):
            leaf = self._leaf(tensor)
            if leaf is not None:
                nbytes = tensor.numel() * tensor.itemsize
                self._read[leaf] += (
                    lookup_bytes if place == 0 and lookup_bytes is not None else nbytes
                )

    def _leaf(self, tensor: Any) -> int | None:
        """Return the index of the leaf in whose memory a tensor begins."""
        if not _lies(tensor):
            return None
        address = tensor.data_ptr()
        number = bisect.bisect_right(self._starts, address) - 1
        if number < 0 or address >= sum(self._leaves[number]):
            return None
        return number


def _lies(tensor: Any) -> bool:
    """Return whether a tensor has an address."""
    return str(tensor.layout) == "torch.strided" and not tensor.is_meta


def _extent(tensor: Any) -> int:
    """Return the bytes from the first to the last element; expanded axes take no room."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int((1 + sum((count - 1) * step for count, step in steps)) * tensor.itemsize)


def _is_view(func: Any) -> bool:
    """Return whether an operator's result is a view, so that nothing was read yet."""
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _lookup_bytes(name: str, arguments: tuple[Any, ...], result: Any) -> int | None:
    """Return the bytes that a lookup reads of its first argument; None for other operators."""
    if name in _ROWS:
        return _rows_bytes(
            arguments[0], 0 if name != "index_select" else arguments[1], arguments[_ROWS[name]]
        )
    if name == "index":
        indices = [(axis, i) for axis, i in enumerate(arguments[1]) if i is not None]
        if len(indices) == 1 and not indices[0][1].dtype.is_floating_point:
            axis, index = indices[0]
            if str(index.dtype) not in ("torch.bool", "torch.uint8"):
                return _rows_bytes(arguments[0], axis, index)
    if name in _ELEMENTS:
        return int(result.numel() * result.itemsize)
    return None


def _rows_bytes(table: Any, axis: int, numbers: Any) -> int:
    rows = int(numbers.unique().numel())
    return int(rows * (table.numel() // max(1, table.shape[axis])) * table.itemsize)


def _tensors(arguments: Sequence[Any]) -> list[Any]:
    tensors = []
    for value in arguments:
        if isinstance(value, (list, tuple)):
            tensors += _tensors(value)
        elif hasattr(value, "layout"):  # a storage has none
            tensors.append(value)
    return tensors
