"""Tensors as named buffers: written to memory files and rebuilt, by their layouts, over mappings or
over device memory. Inputs are mapped read-only."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

from . import memory_files
from .layouts import Layout, item_bytes, span, tensor_entries
from .memory_files import PAGE
from .nesting import named_tuple, tensors_of

FILL = 0x7F  # marks unwritten bytes: as a number, NaN in half precision and 3.4e38 in single


def write(fd: int, layout: Layout, value: Any, base: int = 0) -> None:
    """Write the tensors of `value`, which has this layout, to the file, and fill the rest of their
    pages."""
    for tensor, entry in zip(tensors_of(value), tensor_entries(layout), strict=True):
        start, end = base + entry["offset"], base + entry["offset"] + entry["nbytes"]
        memory_files.write_at(fd, raw(tensor, entry["nbytes"]), start)
        os.pwrite(fd, bytes([FILL]) * (start % PAGE), start - start % PAGE)
        os.pwrite(fd, bytes([FILL]) * (-end % PAGE), end)


def raw(tensor: Any, nbytes: int) -> memoryview:
    """Return the bytes that a CPU tensor's elements span, from its first element on."""
    if nbytes == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * nbytes).from_address(tensor.data_ptr())).cast("B")


def read(
    fd: int, layout: Layout, protect: Callable[[int], None] | None = None, base: int = 0
) -> Any:
    """Build the structure over a mapping of the file. base: its start in the file, in bytes.
    protect: called with the address of each page between tensors."""
    # map no more than the structure: populating unread pages of a sparse file costs as much
    value = build(layout, memory_files.map_private(fd, base + layout["bytes"]), base)
    if protect is not None:
        for source, entry in zip(tensors_of(value), tensor_entries(layout), strict=True):
            if entry["nbytes"]:
                start = source.data_ptr() - entry["offset"] % PAGE
                end = -(-(source.data_ptr() + entry["nbytes"]) // PAGE) * PAGE
                protect(start - PAGE)
                protect(end)
    return value


def address(memory: Any) -> int:
    """Return the address of a mapping in this process."""
    import torch

    _expect_warning()
    return int(torch.frombuffer(memory, dtype=torch.uint8).data_ptr())


def build(layout: Layout, memory: Any, base: int = 0) -> Any:
    """Build the structure over an existing mapping."""

    def walk(node: Any) -> Any:
        if isinstance(node, int):
            entry = layout["leaves"][node]
            return entry["value"] if "value" in entry else tensor(memory, entry, base)
        ((kind, children),) = node.items()
        if kind == "dict":
            return {k: walk(v) for k, v in children}
        if kind == "named":
            return named_tuple(children, map(walk, children.values()))
        return (list if kind == "list" else tuple)(walk(v) for v in children)

    return walk(layout["tree"])


def tensor(memory: Any, entry: dict[str, Any], base: int = 0) -> Any:
    """Build one tensor over a mapping, or over a tensor of bytes on a device."""
    import torch

    dtype = getattr(torch, entry["dtype"])
    if isinstance(memory, torch.Tensor):
        start = base + entry["offset"]
        flat = memory[start : start + entry["nbytes"]].view(dtype)
        return (
            flat.as_strided(entry["shape"], entry["stride"])
            if entry["nbytes"]
            else flat.reshape(entry["shape"])
        )
    if entry["nbytes"] == 0:
        return torch.empty_strided(entry["shape"], entry["stride"], dtype=dtype)
    _expect_warning()
    flat = torch.frombuffer(
        memory, dtype=dtype, count=entry["nbytes"] // dtype.itemsize, offset=base + entry["offset"]
    )
    return flat.as_strided(entry["shape"], entry["stride"])


def tensors(layout: Layout, memory: Any, base: int = 0) -> list[Any]:
    """Build the tensors of a layout, in order, over a mapping."""
    return [tensor(memory, entry, base) for entry in tensor_entries(layout)]


def stack(layout: Layout, memory: Any, count: int, stride: int) -> list[Any]:
    """Build the tensors of `count` equal layouts that lie `stride` bytes apart from the start of a
    mapping, each with a leading dimension of `count`."""
    stacks = []
    for entry in tensor_entries(layout):
        size = item_bytes(entry["dtype"])
        nbytes = (count - 1) * stride + entry["nbytes"] if entry["nbytes"] else 0
        shape, strides = [count, *entry["shape"]], [stride // size, *entry["stride"]]
        stacks.append(
            tensor(memory, {**entry, "nbytes": nbytes, "shape": shape, "stride": strides})
        )
    return stacks


def put(region: Any, layout: Layout, value: Any, base: int = 0) -> None:
    """Copy the tensors of `value`, which has this layout, into a tensor of bytes on a device."""
    for source, entry in zip(tensors_of(value), tensor_entries(layout), strict=True):
        count = span(entry["shape"], entry["stride"])
        if count:
            start = base + entry["offset"]
            region[start : start + entry["nbytes"]].view(source.dtype).copy_(
                source.as_strided((count,), (1,))
            )


@functools.cache
def _expect_warning() -> None:
    """Trigger and suppress torch's warning, once per process, that a buffer is read-only: these
    buffers are meant to be."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.frombuffer(b"0", dtype=torch.uint8)
