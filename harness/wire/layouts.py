"""Layouts: where in memory the leaves of a structure of arguments lie.

A layout is a list of entries, one per leaf: tensors with offset, shape, stride and dtype;
everything else as a JSON value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .memory_files import PAGE

LINE = 64  # bytes to which tensors are aligned, as the framework's are
PLAIN_BYTES = 1 << 17  # that a layout may take besides its tensors, as JSON
# {"bytes": total, "leaves": [...], "tree": structure}; plain JSON because it crosses as JSON
Layout = dict[str, Any]


def plan_layout(value: Any, begins: Sequence[int] = ()) -> Layout:
    """The layout of a structure of lists, tuples, named tuples, dicts, tensors and JSON values.
    Raises TypeError naming what cannot cross, also because it is too long.

    Each tensor ends (up to its alignment) at the end of a page, with an unused page before and
    after it. begins: at which byte of a line each tensor begins, 0 where there are none.
    """
    leaves: list[dict[str, Any]] = []
    total = PAGE

    def walk(node: Any, where: str) -> Any:
        nonlocal total
        if isinstance(node, tuple) and hasattr(node, "_fields"):  # asked for by name
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
            # pairs: as names of a JSON object all keys are texts
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
                "lists and dicts can cross"
            )
        return len(leaves) - 1

    tree = walk(value, "value")
    layout = {"bytes": total, "leaves": leaves, "tree": tree}
    if (size := len(json.dumps(plain_values(layout)))) > PLAIN_BYTES:
        raise TypeError(
            f"what is no tensor takes {size} bytes as JSON, and {PLAIN_BYTES} are accepted; "
            "shorter texts, fewer numbers or a tensor of these can cross"
        )
    return layout


def _is_json_value(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def plain_values(layout: Layout) -> dict[str, Any]:
    """All that a layout says besides its tensors."""
    leaves = [leaf if "value" in leaf else None for leaf in layout["leaves"]]
    return {"tree": layout["tree"], "leaves": leaves}


def with_plain_values(layout: Layout, plain_values: dict[str, Any]) -> Layout:
    """The tensors of a layout, with what `plain` gave of one that has the same."""
    tensors = iter(tensor_entries(layout))
    return {
        **layout,
        **plain_values,
        "leaves": [leaf or next(tensors) for leaf in plain_values["leaves"]],
    }


def dense_layout(layout: Layout) -> Layout:
    """The same tensors as a flat list in contiguous layout: how outputs are written. "as": their
    strides before."""
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


def integer_tensors(layout: Layout) -> list[int]:
    """Which tensors of a layout, by number, hold integers or booleans: where rounding decides
    there, there is no "nearly"."""
    import torch

    dtypes = (getattr(torch, entry["dtype"]) for entry in tensor_entries(layout))
    return [
        number
        for number, dtype in enumerate(dtypes)
        if not (dtype.is_floating_point or dtype.is_complex)
    ]


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def item_bytes(dtype: str) -> int:
    """Of one element of a dtype with this name."""
    import torch

    size: int = getattr(torch, dtype).itemsize
    return size


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements between the first and the last of a tensor in memory, both counted."""
    if any(s == 0 for s in shape):
        return 0
    return 1 + sum((s - 1) * t for s, t in zip(shape, stride, strict=True))


def tensor_entries(layout: Layout) -> list[dict[str, Any]]:
    """What a layout says of its tensors, in order."""
    return [leaf for leaf in layout["leaves"] if "value" not in leaf]
