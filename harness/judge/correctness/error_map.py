"""Describes where and how an output is wrong, from the places and values of its wrong elements.

The result is a signal for the place (a tail, every k-th row, a block …) or for the values (memory
never written), and a text with counts, the pattern in words, what the values have in common (a
factor, an offset, another order) and the worst elements by index and error; their values only on
request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...workers import guarded_memory
from .distance import all_finite, blocks, rms_of
from .places import AxisIndices, first

if TYPE_CHECKING:
    import torch

# the bytes of new and of freed memory in a checking run
POISON = (guarded_memory.FRESH, guarded_memory.FRESH ^ 0xFF)
_FILLED = 0.9  # least share of wrong elements in a block
_SHOWN = 3  # worst elements that are shown
_EXPLAINED = 1e-3  # share of the error's norm that a factor, offset or other order may leave


def read(
    candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor
) -> tuple[list[str], str]:
    """Return signals, that of the place first, and a text. wrong: the mask of wrong elements, at
    least one."""
    place, words = _place(wrong)
    signals = [
        name
        for name in (place, "wrong.uninitialized" if _is_poisoned(candidate, wrong) else None)
        if name
    ]
    parts = [
        f"{int(wrong.sum())} of {wrong.numel()} elements wrong",
        words,
        _relation(candidate, expected),
        _errors(candidate, expected, wrong),
    ]
    return signals or ["wrong.values"], "; ".join(p for p in parts if p)


def _place(wrong: torch.Tensor) -> tuple[str | None, str]:
    """Return the first pattern that fits, from the most special to the most general."""
    if wrong.dim() == 0 or wrong.numel() == 1 or bool(wrong.all()):
        return None, ""
    hits = [AxisIndices.along(wrong, axis) for axis in range(wrong.dim())]
    partial = [axis for axis, hit in enumerate(hits) if hit.partial]
    count, last = int(wrong.sum()), wrong.dim() - 1
    rows = (
        float(wrong.reshape(-1, wrong.shape[-1]).any(dim=1).double().mean())
        if wrong.dim() > 1
        else 1.0
    )
    if not partial:
        return ("wrong.rows", "some rows") if rows <= 0.5 else (None, "")
    in_order = _in_order(wrong, count)
    if len(partial) == 1:
        (axis,) = partial
        pattern, words = _along(hits[axis], axis, axis == last and last > 0)
        return pattern, _amount(wrong, count, hits, partial) + words + in_order
    if all(hit.contiguous for hit in hits):
        box = math.prod(hit.count for hit in hits)
        spread = sum(hits[axis].count > 1 for axis in partial)
        if spread > 1 and count >= _FILLED * box:
            where = ", ".join(f"{hits[a].first}..{hits[a].last} of axis {a}" for a in partial)
            return "wrong.block", f"one block: {where}"
    where = _amount(wrong, count, hits, partial)
    for axis in partial:
        pattern, words = _along(hits[axis], axis, axis == last and last > 0)
        if pattern in ("wrong.tail", "wrong.boundary", "wrong.strided"):
            return pattern, where + words + in_order
    share = f"{rows:.0%} of the rows; " if rows <= 0.5 else ""
    return ("wrong.rows" if rows <= 0.5 else None), share + where + in_order


def _amount(wrong: torch.Tensor, count: int, hits: list[AxisIndices], partial: list[int]) -> str:
    """Say how much is wrong of what: "all of rows 60..63", "40 % of what rows 3, 9 and columns 0..7
    have in common"."""
    names = ("rows", "columns") if wrong.dim() == 2 else ("indices",) * wrong.dim()
    named = [
        f"{names[a]} {hits[a]}" + (f" of axis {a}" if wrong.dim() > 2 else "") for a in partial
    ]
    if wrong.dim() == 1:
        return named[0]
    share = count / math.prod(hit.count for hit in hits)
    how_much = "all" if share == 1.0 else "nearly all" if share > 0.99 else f"{100 * share:.2g} %"
    common = f"what {' and '.join(named)} have in common" if len(named) > 1 else named[0]
    return f"{how_much} of {common}"


def _in_order(wrong: torch.Tensor, count: int) -> str:
    """Describe wrong elements that are consecutive in memory without being whole rows, as a rounded
    count or the end of a grid leaves them; "" for others."""
    if wrong.dim() < 2 or count < 2 or count % wrong.shape[-1] == 0:
        return ""
    flat = wrong.reshape(-1)
    start = first(flat)
    if not bool(flat[start : start + count].all()):
        return ""
    last = start + count == flat.numel()
    end = f", the last {count}" if last else ""
    return f"; in memory order elements {start}..{start + count - 1} of {flat.numel()}{end}"


def _along(hit: AxisIndices, axis: int, columns: bool) -> tuple[str | None, str]:
    """Return the pattern along an axis on which only some indices hold wrong elements, and its
    description, which continues the text that names the indices."""
    extent = hit.extent
    name = f"axis {axis} of length {extent}"
    if hit.contiguous and hit.last == extent - 1 and hit.count <= extent // 2:
        return "wrong.tail", f", the last {hit.count} along {name}"
    if extent > 3 and hit.count == int(hit.mask[0]) + int(hit.mask[-1]):
        ends = " and ".join(str(at) for at in (0, extent - 1) if bool(hit.mask[at]))
        return "wrong.boundary", f", only index {ends} along {name}"
    if (step := hit.step) > 1:
        every = {2: "every second", 3: "every third"}.get(step, f"every {step}th")
        return "wrong.strided", f", {every} from index {hit.first} along {name}"
    if hit.contiguous and hit.count > 1:
        return "wrong.block" if columns or hit.count <= extent // 2 else None, f" along {name}"
    length, period = hit.period
    words = f", {length} of every {period} from index {hit.first}" if period else ""
    return None if columns or hit.count > extent // 2 else "wrong.rows", f"{words} along {name}"


def _is_poisoned(candidate: torch.Tensor, wrong: torch.Tensor) -> bool:
    """Return whether at least half of the wrong elements hold the pattern of new or freed
    memory."""
    import torch

    raw = (
        candidate.contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .reshape(-1, candidate.element_size())[wrong.reshape(-1)]
    )
    return any(float((raw == byte).all(dim=1).double().mean()) >= 0.5 for byte in POISON)


def _relation(candidate: torch.Tensor, expected: torch.Tensor) -> str:
    """Describe a relation between the two that explains nearly all of the error, else their
    cosine."""
    import torch

    if not candidate.is_floating_point() or candidate.numel() < 4:
        return ""
    if not all_finite(candidate):
        return ""
    sums = torch.zeros(5, dtype=torch.float64)
    for part, reference in blocks(candidate, expected):
        got, want = part.double(), reference.double()
        difference = got - want
        sums += torch.stack(
            [want @ want, got @ got, got @ want, difference @ difference, difference.sum()]
        ).cpu()
    expected2, computed2, both, off2, shift = sums.tolist()
    if expected2 == 0.0 or off2 < 1e-4 * expected2:
        return ""
    if computed2 == 0.0:
        return "all zero"
    factor, offset, explained = both / expected2, shift / candidate.numel(), _EXPLAINED**2 * off2
    if computed2 - 2 * factor * both + factor**2 * expected2 <= explained:
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
    return f"cosine {both / math.sqrt(expected2 * computed2):.4f}"


def values(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    wrong: torch.Tensor,
    limit_of: Callable[[float], float],
) -> str:
    """Describe the worst elements by index, expected and computed value, and allowed error. Only
    for inputs that are not used for judging: a later candidate could memorise the answers to those.
    limit_of: the allowed error for an expected value. wrong: at least one element is true."""
    texts = []
    for index, got, want in _worst(candidate, expected, wrong):
        text = f"{index} expected {want:.6g}, got {got:.6g}"
        off = abs(got - want)
        if math.isfinite(off):
            text += f", off by {off:.2g}"
        # only a row or the whole output may exceed its limit, and no single element
        if off > (limit := limit_of(want)):
            text += f" (allowed {limit:.2g})"
        texts.append(text)
    return "; ".join(texts)


def _errors(candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> str:
    """Describe the worst elements by index and order of magnitude of the error. The inputs judge
    other candidates too: with exact errors, an author who writes known values could compute the
    expected ones."""
    texts = []
    for index, got, want in _worst(candidate, expected, wrong):
        if math.isfinite(got) and math.isfinite(want):
            texts.append(f"{index} off by {_magnitude(abs(got - want))}")
        else:
            texts.append(f"{index} {_kind(got)} in place of {_kind(want)}")
    return f"worst: {'; '.join(texts)}"


def _magnitude(value: float) -> str:
    """Return a text such as "about 0.01"."""
    return f"about {10.0 ** round(math.log10(value)):g}" if value else "nothing"


def _kind(value: float) -> str:
    return "a number" if math.isfinite(value) else "NaN" if math.isnan(value) else f"{value:g}"


def _worst(
    candidate: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor
) -> list[tuple[str, float, float]]:
    """Return index, computed and expected value of the few worst elements."""
    import torch

    worst: list[tuple[float, int]] = []  # (minus the difference, flat index)
    start = 0
    for part, reference, mask in blocks(candidate, expected, wrong):
        difference = torch.nan_to_num(
            (part.double() - reference.double()).abs(), nan=math.inf
        ).masked_fill(~mask, -1)
        largest, places = torch.topk(difference, min(_SHOWN, difference.numel()))
        pairs = zip(largest.tolist(), places.tolist(), strict=True)
        worst = sorted([*worst, *((-v, start + place) for v, place in pairs if v >= 0)])[:_SHOWN]
        start += part.numel()
    elements = []
    for _, flat in worst:
        index, remainder = [], flat
        for extent in reversed(candidate.shape):
            index.append(remainder % extent)
            remainder //= extent
        got, want = float(candidate.reshape(-1)[flat]), float(expected.reshape(-1)[flat])
        elements.append((f"[{', '.join(map(str, reversed(index)))}]", got, want))
    return elements
