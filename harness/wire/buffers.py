"""Tensors as named buffers in memfds: layouts, sealed files, and the torch adapter on both sides.

The judge creates every file and knows every size in advance. A layout is a list of entries, one per
leaf of the arguments: tensors with offset, shape, stride and dtype; everything else as a JSON
value. Inputs are mapped read-only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import json
import mmap
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .nesting import named, tensors_of

ALIGN = 4096  # a page
LINE = 64  # bytes to which tensors are aligned, as the framework's are
PLAIN_BYTES = 1 << 17  # that a layout may take besides its tensors, as JSON
FILL = 0x7F  # of bytes that nobody has written: NaN in half precision, 3.4e38 in single
_SEAL_FUTURE_WRITE, _SEAL_WRITE, _SEAL_GROW, _SEAL_SHRINK, _SEAL_SEAL, _ADD_SEALS = (
    16,
    8,
    4,
    2,
    1,
    1033,
)
_SEALING_TRIES = 10  # of which each waits up to 0.15 s by itself
_MAP_POPULATE = 0x8000

# {"bytes": total, "leaves": [...], "tree": structure}; plain JSON because it crosses as JSON
Layout = dict[str, Any]


def create(name: str, size: int, *, fixed: bool = True) -> int:
    """A memfd of `size` bytes (at least one page). fixed: for ever of this size, so that whoever
    else holds it cannot pull the pages from under a mapping."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, max(size, ALIGN))
    if fixed:
        fcntl.fcntl(fd, _ADD_SEALS, _SEAL_GROW | _SEAL_SHRINK)
    return fd


def seal(fd: int, *, writable: bool = False) -> None:
    """Forbid growing and shrinking and, unless writable, writing for ever. No writable mapping may
    exist. The kernel is busy as long as anybody, itself included, is still at one of the pages."""
    seals = _SEAL_GROW | _SEAL_SHRINK | _SEAL_SEAL | (0 if writable else _SEAL_WRITE)
    for _ in range(_SEALING_TRIES):
        if _sealed(fd, seals):
            return
        time.sleep(0.05)
    fcntl.fcntl(fd, _ADD_SEALS, seals)


def _sealed(fd: int, seals: int) -> bool:
    try:
        fcntl.fcntl(fd, _ADD_SEALS, seals)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def seal_for_others(fd: int) -> None:
    """Forbid resizing, and writing but through the mappings that there are."""
    fcntl.fcntl(fd, _ADD_SEALS, _SEAL_GROW | _SEAL_SHRINK | _SEAL_SEAL | _SEAL_FUTURE_WRITE)


def from_bytes(name: str, data: bytes) -> int:
    """A sealed memfd that holds `data`."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data) if len(data) < 1 << 20 else _write_all(fd, memoryview(data), 0)
    seal(fd)
    return fd


def copy(name: str, fd: int) -> int:
    """A sealed memfd of its own with the same contents; where nothing was ever written it takes no
    memory either."""
    size = os.fstat(fd).st_size
    new = create(name, size)
    try:
        for start, end in _written(fd, size):
            os.lseek(new, start, os.SEEK_SET)
            while start < end:
                start += os.sendfile(new, fd, start, min(end - start, 1 << 30))
        os.lseek(new, 0, os.SEEK_SET)
        seal(new)
        return new
    except BaseException:
        os.close(new)
        raise


def _written(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:  # ENXIO: the rest is a hole
            return
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def read_all(fd: int) -> bytes:
    """Everything in a file, from its start."""
    size = os.fstat(fd).st_size
    parts, offset = [], 0
    while offset < size:
        part = os.pread(fd, min(size - offset, 1 << 24), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done : done + (1 << 26)], offset + done)


# ---- torch adapter -------------------------------------------------------------------------------


def plan(value: Any) -> Layout:
    """The layout of a structure of lists, tuples, named tuples, dicts, tensors and JSON values.
    Raises TypeError naming what cannot cross, also because it is too long.

    Each tensor ends (up to its alignment) at the end of a page, with an unused page before and
    after it.
    """
    leaves: list[dict[str, Any]] = []
    total = ALIGN

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
            if other := [k for k in node if not _is_plain(k)]:
                raise TypeError(
                    f"{where} has a key that is a {type(other[0]).__name__}; numbers, strings, "
                    "booleans and None can be keys"
                )
            # pairs: as names of a JSON object all keys are texts
            return {"dict": [[k, walk(v, f"{where}[{k!r}]")] for k, v in node.items()]}
        if hasattr(node, "data_ptr"):
            extent = _extent(node.shape, node.stride())
            entry = {
                "dtype": str(node.dtype).removeprefix("torch."),
                "shape": list(node.shape),
                "stride": list(node.stride()),
                "nbytes": extent * node.element_size(),
            }
            used = -(-entry["nbytes"] // LINE) * LINE
            pages = -(-used // ALIGN) * ALIGN
            entry["offset"] = total + pages - used
            total += pages + ALIGN
            leaves.append(entry)
        elif _is_plain(node):
            leaves.append({"value": node})
        else:
            raise TypeError(
                f"{where} is a {type(node).__name__}; tensors, numbers, strings, booleans, None, "
                "lists and dicts can cross"
            )
        return len(leaves) - 1

    tree = walk(value, "value")
    layout = {"bytes": total, "leaves": leaves, "tree": tree}
    if (size := len(json.dumps(plain(layout)))) > PLAIN_BYTES:
        raise TypeError(
            f"what is no tensor takes {size} bytes as JSON, and {PLAIN_BYTES} are accepted; "
            "shorter texts, fewer numbers or a tensor of these can cross"
        )
    return layout


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def plain(layout: Layout) -> dict[str, Any]:
    """All that a layout says besides its tensors."""
    leaves = [leaf if "value" in leaf else None for leaf in layout["leaves"]]
    return {"tree": layout["tree"], "leaves": leaves}


def with_plain(layout: Layout, other: dict[str, Any]) -> Layout:
    """The tensors of a layout, with what `plain` gave of one that has the same."""
    own = iter(_entries(layout))
    return {**layout, **other, "leaves": [leaf or next(own) for leaf in other["leaves"]]}


def write(fd: int, layout: Layout, value: Any, base: int = 0) -> None:
    """Write the tensors of `value`, which has this layout, into the file, and fill what is left of
    their pages."""
    for tensor, entry in zip(tensors_of(value), _entries(layout), strict=True):
        start, end = base + entry["offset"], base + entry["offset"] + entry["nbytes"]
        _write_all(fd, raw(tensor, entry["nbytes"]), start)
        os.pwrite(fd, bytes([FILL]) * (start % ALIGN), start - start % ALIGN)
        os.pwrite(fd, bytes([FILL]) * (-end % ALIGN), end)


def raw(tensor: Any, nbytes: int) -> memoryview:
    """The bytes that a CPU tensor's elements span, from its first element on."""
    if nbytes == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * nbytes).from_address(tensor.data_ptr())).cast("B")


def mapped(fd: int, size: int = 1 << 62) -> mmap.mmap:
    """A file, or its first `size` bytes: private, read-only, its pages already present."""
    return _map(
        fd, min(size, os.fstat(fd).st_size), mmap.MAP_PRIVATE | _MAP_POPULATE, mmap.PROT_READ
    )


def read(
    fd: int, layout: Layout, protect: Callable[[int], None] | None = None, base: int = 0
) -> Any:
    """The structure, with tensors on a mapping of the file. base: where in it the structure starts.
    protect: called with the address of each page between tensors."""
    # pages of a sparse file that nobody reads would cost as much
    value = build(layout, mapped(fd, base + layout["bytes"]), base)
    if protect is not None:
        for found, entry in zip(tensors_of(value), _entries(layout), strict=True):
            if entry["nbytes"]:
                start = found.data_ptr() - entry["offset"] % ALIGN
                end = -(-(found.data_ptr() + entry["nbytes"]) // ALIGN) * ALIGN
                protect(start - ALIGN)
                protect(end)
    return value


def watched(fd: int) -> mmap.mmap:
    """A read-only mapping that shows what others write."""
    return _map(fd, os.fstat(fd).st_size, mmap.MAP_SHARED | _MAP_POPULATE, mmap.PROT_READ)


def address(mapped: Any) -> int:
    """Where a mapping begins in this process."""
    import torch

    _expect_warning()
    return int(torch.frombuffer(mapped, dtype=torch.uint8).data_ptr())


def shared(fd: int, size: int) -> mmap.mmap:
    """A writable shared mapping."""
    return _map(fd, size, mmap.MAP_SHARED | _MAP_POPULATE, mmap.PROT_READ | mmap.PROT_WRITE)


def _map(fd: int, size: int, flags: int, protection: int) -> mmap.mmap:
    return mmap.mmap(fd, max(size, ALIGN), flags=flags, prot=protection)


def build(layout: Layout, mapped: Any, base: int = 0) -> Any:
    """The structure over an existing mapping."""

    def walk(node: Any) -> Any:
        if isinstance(node, int):
            entry = layout["leaves"][node]
            return entry["value"] if "value" in entry else tensor(mapped, entry, base)
        ((kind, children),) = node.items()
        if kind == "dict":
            return {k: walk(v) for k, v in children}
        if kind == "named":
            return named(children, map(walk, children.values()))
        return (list if kind == "list" else tuple)(walk(v) for v in children)

    return walk(layout["tree"])


def tensor(mapped: Any, entry: dict[str, Any], base: int = 0) -> Any:
    """One tensor over a mapping, or over a tensor of bytes on a device."""
    import torch

    dtype = getattr(torch, entry["dtype"])
    if isinstance(mapped, torch.Tensor):
        start = base + entry["offset"]
        flat = mapped[start : start + entry["nbytes"]].view(dtype)
        return (
            flat.as_strided(entry["shape"], entry["stride"])
            if entry["nbytes"]
            else flat.reshape(entry["shape"])
        )
    if entry["nbytes"] == 0:
        return torch.empty_strided(entry["shape"], entry["stride"], dtype=dtype)
    _expect_warning()
    flat = torch.frombuffer(
        mapped, dtype=dtype, count=entry["nbytes"] // dtype.itemsize, offset=base + entry["offset"]
    )
    return flat.as_strided(entry["shape"], entry["stride"])


def put(there: Any, layout: Layout, value: Any, base: int = 0) -> None:
    """Copy the tensors of `value`, which has this layout, into a tensor of bytes on a device."""
    for found, entry in zip(tensors_of(value), _entries(layout), strict=True):
        count = _extent(entry["shape"], entry["stride"])
        if count:
            start = base + entry["offset"]
            there[start : start + entry["nbytes"]].view(found.dtype).copy_(
                found.as_strided((count,), (1,))
            )


@functools.cache
def _expect_warning() -> None:
    """torch warns once in a process that a buffer is read-only: that is the point."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.frombuffer(b"0", dtype=torch.uint8)


def stacked(layout: Layout, mapped: Any, count: int, stride: int) -> list[Any]:
    """The tensors of `count` equal layouts that lie `stride` bytes apart, from the start of a
    mapping: each with one dimension more."""
    found = []
    for entry in _entries(layout):
        size = _itemsize(entry["dtype"])
        nbytes = (count - 1) * stride + entry["nbytes"] if entry["nbytes"] else 0
        shape, strides = [count, *entry["shape"]], [stride // size, *entry["stride"]]
        found.append(tensor(mapped, {**entry, "nbytes": nbytes, "shape": shape, "stride": strides}))
    return found


def tensors(layout: Layout, mapped: Any, base: int = 0) -> list[Any]:
    """The tensors of a layout, in order, over a mapping."""
    return [tensor(mapped, entry, base) for entry in _entries(layout)]


def dense(layout: Layout) -> Layout:
    """The same tensors as a flat list in contiguous layout: how outputs are written. "as": their
    strides before."""
    leaves, total = [], 0
    for entry in _entries(layout):
        count = 1
        for extent in entry["shape"]:
            count *= extent
        nbytes = count * _itemsize(entry["dtype"])
        leaves.append(
            {
                **entry,
                "stride": contiguous(entry["shape"]),
                "as": entry["stride"],
                "offset": total,
                "nbytes": nbytes,
            }
        )
        total += -(-nbytes // ALIGN) * ALIGN
    return {"bytes": total, "leaves": leaves, "tree": {"list": list(range(len(leaves)))}}


def integers(layout: Layout) -> list[int]:
    """Which tensors of a layout, by number, hold integers or booleans: where rounding decides
    there, there is no "nearly"."""
    import torch

    dtypes = (getattr(torch, entry["dtype"]) for entry in _entries(layout))
    return [
        number
        for number, dtype in enumerate(dtypes)
        if not (dtype.is_floating_point or dtype.is_complex)
    ]


def contiguous(shape: Sequence[int]) -> list[int]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def _itemsize(dtype: str) -> int:
    import torch

    size: int = getattr(torch, dtype).itemsize
    return size


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    if any(s == 0 for s in shape):
        return 0
    return 1 + sum((s - 1) * t for s, t in zip(shape, stride, strict=True))


def _entries(layout: Layout) -> list[dict[str, Any]]:
    return [leaf for leaf in layout["leaves"] if "value" not in leaf]
