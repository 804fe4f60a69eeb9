"""Right or wrong: a candidate's bytes against a high-precision reference.

The error is norm-wise, relative to the reference, per tensor and per row; it may be a small multiple of the framework's own
rounding error in the same dtype, or a floor for honest arithmetic:
    floor = 2 u + v sqrt(K),    limit = max(4 * error(framework), floor),
u the unit roundoff of the output's dtype, v that of the accumulator (float32 at least), K the reduction length. A plain
sequential sum of K terms of one sign is off by about v sqrt(K / 3) (each partial sum rounds once, independently), so the floor
holds 1.7 times that. No single element may be off by more than 8 floor (|r| + rms(r)), or 4 times the framework's own worst.
Integers and booleans must be equal to the reference's or, where rounding decides (an argmax), the framework's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

FRAMEWORK_FACTOR = 4.0
ROW_FACTOR = 8.0
CAP_FACTOR = 8.0
POISON = (0x5A, 0xA5)  # the bytes with which a checking run fills fresh and freed memory (M_PERTURB and its complement)
ROUNDOFF = {  # unit roundoff: half the distance from 1 to the next number
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3, "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """The verdict on one output. signal: None if right. error, framework_error, limit: norm-wise and relative."""

    signal: str | None
    error: float
    framework_error: float
    limit: float
    detail: str = ""
    bitwise_equal: bool = False


@dataclass(frozen=True)
class Allowance:
    """What an output may be off by: derived once from the framework's own error. worst: its largest element error."""

    norm: float
    row: float
    worst: float
    framework_error: float


def floor(dtype: str, reduction: int) -> float:
    """2 u + v sqrt(K)."""
    return 2 * ROUNDOFF[dtype] + min(ROUNDOFF[dtype], ROUNDOFF["float32"]) * math.sqrt(max(reduction, 1))


def allowance(expected: torch.Tensor, framework: torch.Tensor, reduction: int) -> Allowance:
    """Measure the framework's error for an output and derive what a candidate may be off by."""
    if not framework.is_floating_point():
        return Allowance(0.0, 0.0, 0.0, 0.0)
    import torch

    base = floor(_dtype(framework), reduction)
    finite = torch.isfinite(expected) & torch.isfinite(framework)
    if not bool(finite.all()):
        expected, framework = expected.masked_fill(~finite, 0), framework.masked_fill(~finite, 0)
    error, rows, worst = _errors(framework, expected)
    own_rows = float(rows.max()) if rows.numel() else 0.0
    return Allowance(max(FRAMEWORK_FACTOR * error, base), max(ROW_FACTOR * own_rows, ROW_FACTOR * base), worst, error)


def compare(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    reduction: int,
    framework: torch.Tensor | None = None,
    bitwise: bool = False,
) -> Finding:
    """Judge one output. Shapes and dtypes were fixed before: the bytes were laid out by the judge."""
    import torch

    candidate = candidate.to(expected.device)
    equal = framework is not None and same_bits(candidate, framework)
    if bitwise and framework is not None:
        count = 0 if equal else int((candidate != framework).sum())
        detail = "" if equal else f"{count} of {candidate.numel()} elements differ from the framework's bits"
        return Finding(None if equal else "wrong.not_bitwise", 0.0, 0.0, 0.0, detail, equal)
    if not candidate.is_floating_point():
        return _compare_exact(candidate, expected, framework, equal)
    finite = torch.isfinite(expected)
    if not bool((torch.isfinite(candidate) == finite).all()):
        return Finding(
            "wrong.non_finite", math.inf, allowed.framework_error, allowed.norm, _describe(candidate, expected, ~finite)
        )
    if not bool(finite.all()):
        if not bool(((candidate == expected) | finite | (candidate.isnan() & expected.isnan())).all()):
            return Finding(
                "wrong.non_finite", math.inf, allowed.framework_error, allowed.norm, "infinities of the wrong sign or NaN"
            )
        candidate, expected = candidate.masked_fill(~finite, 0), expected.masked_fill(~finite, 0)
    error, rows, _ = _errors(candidate, expected)
    scale = CAP_FACTOR * floor(_dtype(candidate), reduction)
    difference = (candidate.to(expected.dtype) - expected).abs_()
    cap = expected.abs().add_(_rms(expected)).mul_(scale).clamp_(min=FRAMEWORK_FACTOR * allowed.worst)
    wrong = difference > cap
    row_wrong = rows > allowed.row
    if error <= allowed.norm and not bool(wrong.any()) and not bool(row_wrong.any()):
        return Finding(None, error, allowed.framework_error, allowed.norm, "", equal)
    if not bool(wrong.any()):  # no single element stands out: show the rows that are off, or the largest differences
        wrong = row_wrong.reshape(*expected.shape[:-1], 1).expand(expected.shape) if expected.dim() > 1 else wrong
        wrong = wrong if bool(wrong.any()) else difference >= 0.5 * difference.max()
    signal = _classify(candidate, expected, wrong, error)
    return Finding(signal, error, allowed.framework_error, allowed.norm, _describe(candidate, expected, wrong))


def _compare_exact(candidate: torch.Tensor, expected: torch.Tensor, framework: torch.Tensor | None, equal: bool) -> Finding:
    wrong = candidate != expected.to(candidate.dtype)
    if framework is not None:
        wrong &= candidate != framework
    count = int(wrong.sum())
    if not count:
        return Finding(None, 0.0, 0.0, 0.0, "", equal)
    return Finding(
        _classify_place(wrong) or "wrong.values", count / wrong.numel(), 0.0, 0.0, _describe(candidate, expected, wrong)
    )


def _errors(value: torch.Tensor, expected: torch.Tensor) -> tuple[float, torch.Tensor, float]:
    """Norm-wise relative error of the whole, of each row (relative to the row, or to half the typical row: the error of a sum
    that cancels is that of its terms), and the largest."""
    import torch

    if value.numel() == 0:
        return 0.0, torch.zeros(0), 0.0
    work = expected.dtype if expected.dtype in (torch.float64, torch.float32) else torch.float32
    reference = expected.to(work)
    difference = value.to(work) - reference
    shape = (-1, reference.shape[-1]) if reference.dim() > 1 else (1, -1)
    row_reference = torch.linalg.vector_norm(reference.reshape(shape), dim=1).double()
    row_difference = torch.linalg.vector_norm(difference.reshape(shape), dim=1).double()
    whole = float(row_reference.square().sum().sqrt())
    off = float(row_difference.square().sum().sqrt())
    worst = float(difference.abs().max())
    if whole == 0.0:
        absolute = off / math.sqrt(value.numel())
        return absolute, row_difference / math.sqrt(reference.shape[-1] if reference.dim() else 1), worst
    typical = 0.5 * whole / math.sqrt(row_reference.numel())
    return off / whole, row_difference / row_reference.clamp(min=typical), worst


def _classify(candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, error: float) -> str:
    import torch

    if place := _classify_place(wrong):
        return place
    size = candidate.element_size()
    for byte in POISON:
        poison = torch.tensor([byte] * size, dtype=torch.uint8, device=candidate.device).view(candidate.dtype)[0]
        if float((candidate[wrong] == poison).double().mean()) >= 0.5:
            return "wrong.uninitialized"
    coarse = {"float32": 2.0**-7, "float64": 2.0**-22}.get(_dtype(candidate), 0.0)
    return "wrong.precision" if error < coarse else "wrong.values"


def _classify_place(wrong: torch.Tensor) -> str | None:
    """A tail of the last axis, or some rows."""
    if wrong.dim() == 0 or not bool(wrong.any()):
        return None
    columns = wrong.reshape(-1, wrong.shape[-1]).any(dim=0)
    first = int(columns.nonzero()[0])
    width = wrong.shape[-1]
    if wrong.dim() >= 1 and first >= width // 2 and bool(columns[first:].all()) and width > 1:
        return "wrong.tail"
    if wrong.dim() > 1:
        rows = wrong.reshape(-1, width).any(dim=1)
        if float(rows.double().mean()) <= 0.5:
            return "wrong.rows"
    return None


def _describe(candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> str:
    """Where and how: a person's view of the error."""
    import torch

    count = int(wrong.sum())
    if not count or candidate.dim() == 0:
        return f"expected {float(expected.double().reshape(-1)[0]):.6g}, got {float(candidate.double().reshape(-1)[0]):.6g}"
    difference = (candidate.double() - expected.double()).abs().masked_fill(~wrong, -1).reshape(-1)
    difference = torch.nan_to_num(difference, nan=math.inf)
    worst = torch.topk(difference, min(3, count)).indices.tolist()
    samples = []
    for flat in worst:
        index, rest = [], flat
        for extent in reversed(candidate.shape):
            index.append(rest % extent)
            rest //= extent
        got, want = float(candidate.reshape(-1)[flat]), float(expected.reshape(-1)[flat])
        samples.append(f"[{', '.join(map(str, reversed(index)))}] expected {want:.6g}, got {got:.6g}")
    first = int(wrong.reshape(-1).to(torch.uint8).argmax())
    return f"{count} of {wrong.numel()} elements wrong, first at flat index {first}; worst: {'; '.join(samples)}"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes."""
    import torch

    a, b = one.contiguous().reshape(-1).view(torch.uint8), other.contiguous().reshape(-1).view(torch.uint8)
    return bool(torch.equal(a, b))


def _rms(tensor: torch.Tensor) -> float:
    import torch

    return float(torch.linalg.vector_norm(tensor)) / math.sqrt(max(tensor.numel(), 1))


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
