"""The distance of a result from a reference, computed in one pass over blocks that fit into a
core's cache and take little of a device's memory."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...targets import cpu
from ...wire import dtypes

if TYPE_CHECKING:
    import torch

BLOCK = 1 << 17  # elements: both sides in float64 fit into the second-level cache of a core
# 512 MiB in float64: enough work for a device, little compared with an output of 10^9 elements
DEVICE_BLOCK = 1 << 26
TINY_SQUARES = 1e-250  # below this, squares may have underflowed
MANY = 1 << 20  # elements that are worth a separate thread
NEIGHBOURS = 32  # elements along a row that share the error of a sum over it
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Distance:
    """The distance of a tensor from a reference.

    error: norm-wise and relative (absolute, as a root mean square, where the reference is zero);
    not finite where either side holds NaN or infinity. rows: the same for each row, relative to the
    row or to half the typical row, whichever is larger, since the error of a sum that cancels is
    that of its terms. worst: the largest difference of an element. excess: the largest value of
    difference - slope |reference| of an element. rms: of the reference.
    """

    error: float
    rows: torch.Tensor
    worst: float
    excess: float
    rms: float


def measure(value: torch.Tensor, reference: torch.Tensor, slope: float = 0.0) -> Distance:
    """Measure the distance of two real tensors of one shape. Computed in the reference's precision,
    but at least in single; if squares overflow or underflow in it, once more at another scale."""
    import torch

    if value.numel() == 0:
        return Distance(0.0, torch.zeros(0), 0.0, 0.0, 0.0)
    distance = _measure(value, reference, slope)
    if (
        math.isfinite(distance.error)
        and math.isfinite(distance.rms)
        and (distance.rms > 0.0 or distance.worst == 0.0)
    ):
        return distance
    top = float(torch.where(reference.isfinite(), reference.abs(), 0).max())
    if top == 0.0:
        return distance
    exponent = max(-1021, math.frexp(top)[1])
    down, up = math.ldexp(1.0, -exponent), math.ldexp(1.0, exponent - 1)
    wide = torch.float64 if torch.float64 in (value.dtype, reference.dtype) else torch.float32
    scaled = _measure(value.to(wide) * down, reference.to(wide) * down, slope)
    return replace(
        scaled, worst=2 * up * scaled.worst, excess=2 * up * scaled.excess, rms=2 * up * scaled.rms
    )


def rms(tensor: torch.Tensor) -> float:
    """Return the root mean square of the elements, real or complex, without overflow for the
    largest values."""
    return rms_of(lambda values: values, tensor)


def rms_of(combine: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> float:
    """Return the root mean square of a linear combination of tensors of one shape. combine: the
    combination of equal blocks of each, in float64."""
    import torch

    parts = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    count = parts[0].numel()
    if not count:
        return 0.0
    total = _squares(combine, parts, 1.0)
    if math.isnan(total) or TINY_SQUARES <= total < math.inf:
        return math.sqrt(total / count)
    top = max(float(stretch.double().abs().max()) for each in parts for (stretch,) in blocks(each))
    if not 0.0 < top < math.inf:
        return top
    return top * math.sqrt(_squares(combine, parts, top) / count)


def apart(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the part of the norm-wise relative error that neighbours along the last axis do not
    share: what is left after the best offset and factor for each NEIGHBOURS elements. The error of
    a sum that enters a whole row, or of a scan, is such an offset and factor."""

    width = reference.shape[-1] // NEIGHBOURS * NEIGHBOURS if reference.dim() else 0
    top = float(reference.abs().max()) if width and reference.numel() else 0.0
    if top == 0.0:
        return 0.0
    residual = total = 0.0
    chunks = (t[..., :width].reshape(-1, NEIGHBOURS) for t in (value, reference))
    for stretches in blocks(*chunks):
        values, expected = (s.reshape(-1, NEIGHBOURS).double() / top for s in stretches)
        off = values.sub_(expected)
        total += float(expected.square().sum())
        expected.sub_(expected.mean(1, keepdim=True))
        off.sub_(off.mean(1, keepdim=True))
        spread = expected.square().sum(1, keepdim=True).clamp_(min=1e-300)
        off.addcmul_(expected, (off * expected).sum(1, keepdim=True) / spread, value=-1)
        residual += float(off.square().sum())
    # an offset and a factor take two degrees of freedom from each group
    return math.sqrt(residual / (1 - 2 / NEIGHBOURS) / total) if total else 0.0


def blocks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield equal blocks of all tensors, flat and in order, so that computing on them needs little
    memory."""
    flat = [t.reshape(-1) for t in tensors]
    length = BLOCK if flat[0].device.type == "cpu" else DEVICE_BLOCK
    for start in range(0, flat[0].numel(), length):
        yield tuple(each[start : start + length] for each in flat)


def all_finite(tensor: torch.Tensor) -> bool:
    """Return whether no element is NaN or infinite."""
    return all(bool(dtypes.comparable(each).isfinite().all()) for (each,) in blocks(tensor))


def _squares(combine: Callable[..., torch.Tensor], parts: list[torch.Tensor], unit: float) -> float:
    """Return the sum of the squares of the combination, in squared units."""
    import torch

    def squared_norm(stretches: tuple[torch.Tensor, ...]) -> torch.Tensor:
        wide = [s.double() if unit == 1.0 else s.double() / unit for s in stretches]
        norm: torch.Tensor = torch.linalg.vector_norm(combine(*wide))
        return norm.square()

    on_threads = parts[0].device.type == "cpu" and parts[0].numel() >= 2 * MANY
    norms = list(
        _threads().map(squared_norm, blocks(*parts))
        if on_threads
        else map(squared_norm, blocks(*parts))
    )
    return float(torch.stack(norms).sum())


def _measure(value: torch.Tensor, reference: torch.Tensor, slope: float) -> Distance:
    import torch

    count = value.numel()
    width = reference.shape[-1] if reference.dim() > 1 else count
    values, expected = value.reshape(-1, width), reference.reshape(-1, width)
    height = len(expected)
    shares = min(height, count // MANY, len(cpu.CORES))
    if value.device.type != "cpu":
        parts = [_part(values, expected, slope, DEVICE_BLOCK)]
    elif shares < 2:  # for a small comparison, starting a thread would take longer
        parts = [_part(values, expected, slope, BLOCK)]
    else:
        edges = [height * number // shares for number in range(shares + 1)]
        pieces = [slice(*pair) for pair in itertools.pairwise(edges)]
        parts = list(
            _threads().map(lambda rows: _part(values[rows], expected[rows], slope, BLOCK), pieces)
        )
    squares = torch.cat([part for part, _ in parts], dim=1)
    worst, excess = torch.stack([part for _, part in parts]).amax(0).tolist()
    whole, off = squares.sum(1).sqrt_().tolist()
    row_reference, row_difference = squares.sqrt_()
    if whole == 0.0:
        return Distance(
            off / math.sqrt(count), row_difference / math.sqrt(width), worst, excess, 0.0
        )
    typical = 0.5 * whole / math.sqrt(height)
    return Distance(
        off / whole,
        row_difference / row_reference.clamp(min=typical),
        worst,
        excess,
        whole / math.sqrt(count),
    )


def _part(
    value_rows: torch.Tensor, reference_rows: torch.Tensor, slope: float, block: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared norms of reference and difference by row, (2, rows), and the largest
    difference and excess, (2,)."""
    import torch

    work = (
        reference_rows.dtype
        if reference_rows.dtype in (torch.float64, torch.float32)
        else torch.float32
    )
    squares = torch.zeros(2, len(reference_rows), dtype=torch.float64, device=reference_rows.device)
    largest = []
    step = max(1, block // reference_rows.shape[1])
    for start in range(0, len(reference_rows), step):
        rows = slice(start, start + step)
        for column in range(0, reference_rows.shape[1], block):
            expected = reference_rows[rows, column : column + block].to(work)
            difference = value_rows[rows, column : column + block].to(work) - expected
            for side, values in enumerate((expected, difference)):
                squares[side, rows] += torch.linalg.vector_norm(values, dim=1).double().square_()
            worst = difference.abs_().max()
            excess = difference.sub_(expected.abs(), alpha=slope).max() if slope else worst
            largest.append(torch.stack((worst, excess)))
    return squares, torch.stack(largest).double().amax(0)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Return a separate thread pool: the framework's threads would synchronize after every
    operation on every block."""
    return ThreadPoolExecutor(len(cpu.CORES), "compare", lambda: os.sched_setaffinity(0, cpu.CORES))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one shape and dtype hold the same bytes."""
    import torch

    one, other = one.contiguous(), other.contiguous()
    if _in_host_memory(one, other):
        size = ctypes.c_size_t(one.numel() * one.element_size())
        addresses = (ctypes.c_void_p(each.data_ptr()) for each in (one, other))
        return bool(_libc.memcmp(*addresses, size) == 0)
    # in pieces: comparing takes one byte of device memory per byte compared
    pieces = (torch.split(t.reshape(-1).view(torch.uint8), DEVICE_BLOCK) for t in (one, other))
    return all(torch.equal(*both) for both in zip(*pieces, strict=True))


def _in_host_memory(*tensors: torch.Tensor) -> bool:
    return all(t.device.type == "cpu" for t in tensors)


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as pairs, dtypes that torch cannot compare as one that it can, other
    tensors unchanged."""
    import torch

    return torch.view_as_real(tensor) if tensor.is_complex() else dtypes.comparable(tensor)


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same as `real`, and booleans as bytes if one is neither 0 nor 1: torch takes
    every other byte as true, but code that reads the bytes may not."""
    import torch

    if tensor.dtype == torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
        return tensor.view(torch.uint8)
    return real(tensor)


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the dtype of a tensor without torch's prefix."""
    return dtypes.name_of(tensor.dtype)
