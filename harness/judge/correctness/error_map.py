"""Where an output is wrong, and how: the places and values of its wrong elements, read as a person
would.

A signal for the place (a tail, every k-th row, a block …) or for the values (memory never written),
and a text with counts, the pattern in words, what the values have in common (a factor, an offset,
another order) and the worst elements.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from ...workers import guards
from .distance import all_finite, blocks, rms_of

if TYPE_CHECKING:
    import torch

# the bytes of fresh and of freed memory in a checking run
POISON = (guards.FRESH, guards.FRESH ^ 0xFF)
_FILLED = 0.9  # of a block's elements are wrong
_EXPLAINED = 1e-3  # what a factor, an offset or another order may leave of the error's norm


def read(
    candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor
) -> tuple[list[str], str]:
    """Signals, the one of the place first, and text. wrong: at least one element is true."""
    place, words = _place(wrong)
    signals = [
        name
        for name in (place, "wrong.uninitialized" if _poisoned(candidate, wrong) else None)
        if name
    ]
    parts = [
        f"{int(wrong.sum())} of {wrong.numel()} elements wrong",
        words,
        _relation(candidate, expected),
        _worst(candidate, expected, wrong),
    ]
    return signals or ["wrong.values"], "; ".join(p for p in parts if p)


def _place(wrong: torch.Tensor) -> tuple[str | None, str]:
    """The first pattern that fits, from the special to the general."""
    if wrong.dim() == 0 or wrong.numel() == 1 or bool(wrong.all()):
        return None, ""
    hits = [_hit(wrong, axis) for axis in range(wrong.dim())]
    partial = [axis for axis, hit in enumerate(hits) if len(hit) < wrong.shape[axis]]
    last = wrong.dim() - 1
    if len(partial) == 1:
        return _along(
            hits[partial[0]], wrong.shape[partial[0]], partial[0], partial[0] == last and last > 0
        )
    rows = (
        float(wrong.reshape(-1, wrong.shape[-1]).any(dim=1).double().mean())
        if wrong.dim() > 1
        else 1.0
    )
    if not partial:
        return ("wrong.rows", "some rows") if rows <= 0.5 else (None, "")
    ranges = [_range(hit) for hit in hits]
    if all(r is not None for r in ranges):
        box = math.prod(len(hit) for hit in hits)
        spread = sum(len(hits[axis]) > 1 for axis in partial)
        if spread > 1 and int(wrong.sum()) >= _FILLED * box:
            where = ", ".join(f"{hits[a][0]}..{hits[a][-1]} of axis {a}" for a in partial)
            return "wrong.block", f"one block: {where}"
    for axis in partial:
        found, words = _along(hits[axis], wrong.shape[axis], axis, axis == last and last > 0)
        if found in ("wrong.tail", "wrong.boundary", "wrong.strided"):
            return found, words
    return ("wrong.rows", f"{rows:.0%} of the rows") if rows <= 0.5 else (None, "")


def _along(hit: list[int], extent: int, axis: int, columns: bool) -> tuple[str | None, str]:
    """A pattern along one axis of which some indices hold wrong elements, others do not."""
    name = f"axis {axis} of length {extent}"
    step = hit[1] - hit[0] if len(hit) > 2 else 0
    first, last = hit[0], hit[-1]
    contiguous = _range(hit) is not None
    if contiguous and last == extent - 1 and len(hit) <= extent // 2:
        return "wrong.tail", f"the last {len(hit)} along {name}"
    if extent > 3 and set(hit) <= {0, extent - 1}:
        return "wrong.boundary", f"only index {' and '.join(map(str, hit))} along {name}"
    if step > 1 and all(b - a == step for a, b in pairwise(hit)) and len(hit) >= extent // step:
        return "wrong.strided", f"every {step}th from index {first} along {name}"
    if contiguous and len(hit) > 1:
        return "wrong.block" if columns or len(
            hit
        ) <= extent // 2 else None, f"indices {first} to {last} along {name}"
    shown = ", ".join(map(str, hit[:6])) + (" …" if len(hit) > 6 else "")
    return None if columns or len(
        hit
    ) > extent // 2 else "wrong.rows", f"indices {shown} along {name}"


def _hit(wrong: torch.Tensor, axis: int) -> list[int]:
    """The indices along an axis at which something is wrong."""
    found: list[int] = (
        wrong.movedim(axis, 0)
        .reshape(wrong.shape[axis], -1)
        .any(dim=1)
        .nonzero()
        .reshape(-1)
        .tolist()
    )
    return found


def _range(hit: list[int]) -> tuple[int, int] | None:
    return (hit[0], hit[-1]) if hit[-1] - hit[0] + 1 == len(hit) else None


def _poisoned(candidate: torch.Tensor, wrong: torch.Tensor) -> bool:
    """Whether at least half of the wrong elements hold, byte for byte, what fresh memory was filled
    with."""
    import torch

    raw = (
        candidate.contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .reshape(-1, candidate.element_size())[wrong.reshape(-1)]
    )
    return any(float((raw == byte).all(dim=1).double().mean()) >= 0.5 for byte in POISON)


def _relation(candidate: torch.Tensor, expected: torch.Tensor) -> str:
    """What the two have in common, if nearly all of the error is explained by it."""
    import torch

    if not candidate.is_floating_point() or candidate.numel() < 4:
        return ""
    if not all_finite(candidate):
        return ""
    sums = torch.zeros(5, dtype=torch.float64)
    for own, wanted in blocks(candidate, expected):
        got, want = own.double(), wanted.double()
        difference = got - want
        sums += torch.stack(
            [want @ want, got @ got, got @ want, difference @ difference, difference.sum()]
        ).cpu()
    wanted2, own2, both, off2, shift = sums.tolist()
    if wanted2 == 0.0 or off2 < 1e-4 * wanted2:
        return ""
    if own2 == 0.0:
        return "all zero"
    factor, offset, explained = both / wanted2, shift / candidate.numel(), _EXPLAINED**2 * off2
    if own2 - 2 * factor * both + factor**2 * wanted2 <= explained:
        return (
            "the expected values negated"
            if abs(factor + 1) < 1e-6
            else f"{factor:.6g} times the expected values"
        )
    if off2 - offset * shift <= explained:
        return f"the expected values plus {offset:.6g}"
    square = candidate.dim() > 1 and candidate.shape[-1] == candidate.shape[-2]
    if (
        square
        and rms_of(lambda a, b: a - b, candidate, expected.transpose(-1, -2)) ** 2
        * candidate.numel()
        <= explained
    ):
        return "the expected values transposed"
    return f"cosine {both / math.sqrt(wanted2 * own2):.4f}"


def _worst(candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> str:
    """Index, expected and computed value of the three worst elements."""
    import torch

    if candidate.dim() == 0:
        return f"expected {float(expected):.6g}, got {float(candidate):.6g}"
    worst: list[tuple[float, int]] = []  # difference and flat place
    start = 0
    for own, wanted, flagged in blocks(candidate, expected, wrong):
        difference = torch.nan_to_num(
            (own.double() - wanted.double()).abs(), nan=math.inf
        ).masked_fill(~flagged, -1)
        values, places = torch.topk(difference, min(3, difference.numel()))
        found = zip(values.tolist(), places.tolist(), strict=True)
        worst = sorted(
            [*worst, *((value, start + place) for value, place in found if value >= 0)],
            reverse=True,
        )[:3]
        start += own.numel()
    samples = []
    for _, flat in worst:
        index, rest = [], flat
        for extent in reversed(candidate.shape):
            index.append(rest % extent)
            rest //= extent
        got, want = float(candidate.reshape(-1)[flat]), float(expected.reshape(-1)[flat])
        samples.append(
            f"[{', '.join(map(str, reversed(index)))}] expected {want:.6g}, got {got:.6g}"
        )
    return f"worst: {'; '.join(samples)}"
