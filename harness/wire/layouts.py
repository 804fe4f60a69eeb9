"""Layouts: where the leaves of a structure of arguments lie in memory.

A layout has one entry per leaf: offset, shape, stride and dtype of a tensor, and the JSON value of
anything else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import dtypes
from .memory_files import PAGE

LINE = 64  # bytes: the alignment of tensors, as in the framework
PLAIN_BYTES = 1 << 17  # the most that a layout may take as JSON besides its tensors
# {"bytes": total, "leaves": [...], "tree": structure}; plain JSON because it crosses as JSON
Layout = dict[str, Any]


def plan_layout(value: Any, begins: Sequence[int] = ()) -> Layout:
    """Lay out a structure of lists, tuples, named tuples, dicts, tensors and JSON values. Raises
    TypeError naming what cannot be sent to a worker, by type or by length.

    Each tensor ends (up to its alignment) at the end of a page, with an unused page before and
    after it. begins: the byte of a line at which each tensor begins, 0 for all if empty.
    """
    leaves: list[dict[str, Any]] = []
    total = PAGE

    def walk(node: Any, where: str) -> Any:
        nonlocal total
        if isinstance(node, tuple) and hasattr(node, "_fields"):  # a named tuple
            return {"named": {k: walk(getattr(node, k), f"{where}.{k}") for k in node._fields}}
        if isinstance(node, (list, tuple)):
            return {
                "list" if isinstance(node, list) else "tuple": [
                    walk(v, f"{where}[{i}]") for i, v in enumerate(node)
                ]
            }
        if isinstance(node, dict):
            if bad_keys := [k for k in node if not _is_json_value(k)]:
                raise TypeError(
                    f"{where} has a key that is a {type(bad_keys[0]).__name__}; numbers, strings, "
                    "booleans and None can be keys"
                )
            # as pairs, because a JSON object would turn all keys into strings
            return {"dict": [[k, walk(v, f"{where}[{k!r}]")] for k, v in node.items()]}
        if hasattr(node, "data_ptr"):
            extent = span(node.shape, node.stride())
            entry = {
                "dtype": str(node.dtype).removeprefix("torch."),
                "shape": list(node.shape),
                "stride": list(node.stride()),
                "nbytes": extent * node.element_size(),
            }
            number = sum("value" not in leaf for leaf in leaves)
            begin = begins[number] if begins else 0
            used = -(-(begin + entry["nbytes"]) // LINE) * LINE
            pages = -(-used // PAGE) * PAGE
            entry["offset"] = total + pages - used + begin
            total += pages + PAGE
            leaves.append(entry)
        elif _is_json_value(node):
            leaves.append({"value": node})
        else:
            raise TypeError(
                f"{where} is a {type(node).__name__}; tensors, numbers, strings, booleans, None, "
                "lists and dicts can be sent to a worker"
            )
        return len(leaves) - 1

    tree = walk(value, "value")
    layout = {"bytes": total, "leaves": leaves, "tree": tree}
    if (size := len(json.dumps(plain_values(layout)))) > PLAIN_BYTES:
        raise TypeError(
            f"the values besides tensors take {size} bytes as JSON, and {PLAIN_BYTES} are "
            "accepted; shorten the texts, use fewer numbers, or put the numbers into a tensor"
        )
    return layout


def _is_json_value(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def plain_values(layout: Layout) -> dict[str, Any]:
    """Return everything in a layout besides its tensors."""
    leaves = [leaf if "value" in leaf else None for leaf in layout["leaves"]]
    return {"tree": layout["tree"], "leaves": leaves}


def with_plain_values(layout: Layout, plain_values: dict[str, Any]) -> Layout:
    """Combine the tensors of a layout with the `plain_values` of another one that has the same
    tensors."""
    tensors = iter(tensor_entries(layout))
    return {
        **layout,
        **plain_values,
        "leaves": [leaf or next(tensors) for leaf in plain_values["leaves"]],
    }


def dense_layout(layout: Layout) -> Layout:
    """Return the layout of the same tensors as a flat list of contiguous ones, the form in which
    outputs are written. "as": their original strides."""
    leaves, total = [], 0
    for entry in tensor_entries(layout):
        count = 1
        for extent in entry["shape"]:
            count *= extent
        nbytes = count * item_bytes(entry["dtype"])
        leaves.append(
            {
                **entry,
                "stride": contiguous_strides(entry["shape"]),
                "as": entry["stride"],
                "offset": total,
                "nbytes": nbytes,
            }
        )
        total += -(-nbytes // PAGE) * PAGE
    return {"bytes": total, "leaves": leaves, "tree": {"list": list(range(len(leaves)))}}


def first_items(layout: Layout, count: int) -> Layout:
    """Return the layout of the first items of a list whose other items are tensors, in the same
    memory."""
    ((kind, items),) = layout["tree"].items()
    leaves = len(layout["leaves"]) - (len(items) - count)
    return {**layout, "leaves": layout["leaves"][:leaves], "tree": {kind: items[:count]}}


def integer_tensors(layout: Layout) -> list[int]:
    """Return the indices of the tensors that hold integers, exponents or booleans: where rounding
    decides such a value, no tolerance can cover the difference."""
    return [
        number
        for number, entry in enumerate(tensor_entries(layout))
        if not dtypes.rounds(entry["dtype"])
    ]


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Return row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def item_bytes(dtype: str) -> int:
    """Return the size of one element of the dtype with this name, in bytes."""
    import torch

    size: int = getattr(torch, dtype).itemsize
    return size


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return the number of elements in memory from a tensor's first to its last, both included."""
    if any(s == 0 for s in shape):
        return 0
    return 1 + sum((s - 1) * t for s, t in zip(shape, stride, strict=True))


def tensor_entries(layout: Layout) -> list[dict[str, Any]]:
    """Return the tensor entries of a layout, in order."""
    return [leaf for leaf in layout["leaves"] if "value" not in leaf]
