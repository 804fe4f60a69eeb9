"""The indices along one axis at which a mask is true. They are not listed, so an axis of 10^8
elements takes only as many bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

RUNS = 4  # runs that are listed one by one


def first(mask: torch.Tensor) -> int:
    """Return the first true index of a flat mask, -1 if there is none."""
    import torch

    if not mask.numel():
        return -1
    at = int(mask.view(torch.uint8).argmax())
    return at if bool(mask[at]) else -1


@dataclass(frozen=True)
class AxisIndices:
    """The indices along an axis that are hit. mask: one element for each index; at least one is
    true."""

    mask: torch.Tensor

    @staticmethod
    def along(wrong: torch.Tensor, axis: int) -> AxisIndices:
        """Return the indices along an axis of a mask of any shape at which some element is
        true."""
        hits = wrong
        for dim in range(wrong.dim() - 1, -1, -1):
            if dim != axis:
                hits = hits.any(dim=dim, keepdim=True)
        return AxisIndices(hits.reshape(-1).cpu())

    @cached_property
    def extent(self) -> int:
        """The number of indices."""
        return self.mask.numel()

    @cached_property
    def count(self) -> int:
        """The number of indices that are hit."""
        return int(self.mask.sum())

    @cached_property
    def first(self) -> int:
        """The smallest index that is hit."""
        return first(self.mask)

    @cached_property
    def last(self) -> int:
        """The largest index that is hit."""
        return self.extent - 1 - first(self.mask.flip(0))

    @property
    def partial(self) -> bool:
        """Whether some indices are not hit."""
        return self.count < self.extent

    @property
    def contiguous(self) -> bool:
        """Whether all indices between the first and the last are hit."""
        return self.count == self.last - self.first + 1

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """The first few runs without a gap, each as (first, last)."""
        stretches: list[tuple[int, int]] = []
        start = self.first
        while start >= 0 and len(stretches) <= RUNS:
            length = first(~self.mask[start:])
            end = self.extent if length < 0 else start + length
            stretches.append((start, end - 1))
            following = first(self.mask[end:])
            start = end + following if following >= 0 else -1
        return stretches

    @property
    def step(self) -> int:
        """k if exactly every k-th index is hit from the first on; 0 otherwise."""
        if self.count < 3 or len(self.runs) < 2:
            return 0
        step = self.runs[1][0] - self.first
        every = self.mask[self.first : self.last + 1 : step]
        regular = bool(every.all()) and every.numel() == self.count
        return step if regular and self.count >= self.extent // step else 0

    @property
    def period(self) -> tuple[int, int]:
        """(n, k) if exactly the first n of every k indices are hit, from the first hit to the end
        of the axis; (0, 0) otherwise."""
        if len(self.runs) < 2:
            return 0, 0
        (start, end), (following, _) = self.runs[:2]
        length, period = end - start + 1, following - start
        mask = self.mask[start:]
        whole = mask.numel() // period * period
        body, tail = mask[:whole].reshape(-1, period), mask[whole:]
        regular = len(body) > 1 and all(
            bool(part[..., :length].all()) and not bool(part[..., length:].any())
            for part in (body, tail)
        )
        return (length, period) if regular else (0, 0)

    def __str__(self) -> str:
        """Return a text such as "3, 12..15 and more"."""
        shown = [str(a) if a == b else f"{a}..{b}" for a, b in self.runs[:RUNS]]
        return ", ".join(shown) + (" and more" if len(self.runs) > RUNS else "")
