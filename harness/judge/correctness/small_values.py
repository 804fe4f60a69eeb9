"""Elements that drown: values so small beside the rest of an output that its limits would not miss
them.

Errors are measured against the size of an output and of its rows, as rounding errors are. So
columns that are a millionth of the rest would pass unwritten. Elements that are that small in every
draw are known by their places; of each order of magnitude among them the error is measured by
itself. It may be gross, since honest sums lose small results beside large ones: a quarter, or four
times the framework's own. Where the framework itself loses them, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .distance import blocks, rms

if TYPE_CHECKING:
    import torch

LIMIT, FACTOR = 0.25, 4.0  # relative error of a group: in any case, and times the framework's own
LEAST_COUNT, LEAST_SHARE = 16, 1 / 256  # of a group's elements: fewer save nobody any work
LEAST_DRAWS = 3  # of two draws, elements that are small by chance would be too many
LEAST_VALUE = 1e-30  # what honest intermediate results may flush to zero is below
MOST_PLACES = 1 << 16  # of a group, chosen at random


@dataclass(frozen=True)
class Faint:
    """Elements of one order of magnitude. places: in the flat output, int64. size: the largest that
    one of them was, relative to the root mean square of its output. framework: the relative error
    of all of them together in the framework's own result; limit: what is allowed."""

    places: torch.Tensor
    size: float
    framework: float
    limit: float


def find(
    draws: Sequence[torch.Tensor], framework: Sequence[torch.Tensor], below: float
) -> tuple[Faint, ...]:
    """The groups of one real, floating output. draws: its expected values for several plain inputs;
    framework: the framework's own for the first of them. below: what an element may be off by,
    relative to the root mean square of the output: what is smaller need not be written."""
    import torch

    if len(draws) < LEAST_DRAWS or not draws[0].numel():
        return ()
    sizes = [rms(draw) for draw in draws]
    if not all(0 < size < math.inf for size in sizes):
        return ()
    # what may be flushed to zero is not asked for
    tiny = least_value(framework[0].dtype) / min(sizes)
    candidates, largest = select_between(draws, sizes, tiny, below)
    least = max(LEAST_COUNT, LEAST_SHARE * draws[0].numel())
    if candidates.numel() < least:
        return ()
    decades = largest.log10().floor().int()
    groups = []
    for decade in sorted(set(decades.tolist())):
        of_decade = decades == decade
        places = candidates[of_decade]
        if places.numel() < least:
            continue
        size = float(largest[of_decade].max())
        if places.numel() > MOST_PLACES:
            places = places[torch.randperm(places.numel(), device=places.device)[:MOST_PLACES]]
        error = max(
            _error(result, draw, places) for result, draw in zip(framework, draws, strict=False)
        )
        if FACTOR * error < 1.0:
            groups.append(Faint(places, size, error, max(LIMIT, FACTOR * error)))
    return tuple(groups)


def least_value(dtype: torch.dtype) -> float:
    """Below it a result of this dtype may be flushed to zero."""
    import torch

    return max(4 * torch.finfo(dtype).tiny, LEAST_VALUE)


def select_between(
    draws: Sequence[torch.Tensor], sizes: Sequence[float], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The flat places whose largest value over all draws, relative to these sizes, lies between two
    limits, and these values."""
    import torch

    places, values, start = [], [], 0
    for stretches in blocks(*draws):
        largest = torch.stack(
            [s.double().abs() / size for s, size in zip(stretches, sizes, strict=True)]
        ).amax(0)
        hits = ((largest < high) & (largest > low)).nonzero().reshape(-1)
        places.append(hits + start)
        values.append(largest[hits])
        start += largest.numel()
    return torch.cat(places), torch.cat(values)


def find_lost_group(
    candidate: torch.Tensor, expected: torch.Tensor, groups: Sequence[Faint]
) -> tuple[Faint, float, torch.Tensor] | None:
    """The first group whose error is above its limit, its error, and where its elements lie that
    are faint in this draw as well; None if none is."""
    size = rms(expected)
    for group in groups:
        now = expected.reshape(-1)[group.places].double().abs()
        places = group.places[now <= 2 * group.size * size]
        if (
            places.numel() >= LEAST_COUNT
            and (error := _error(candidate, expected, places)) > group.limit
        ):
            return group, error, places
    return None


def _error(value: torch.Tensor, reference: torch.Tensor, places: torch.Tensor) -> float:
    """Norm-wise and relative, of these elements; 0 where the reference is zero there."""
    expected = reference.reshape(-1)[places].double()
    size = rms(expected)
    return rms(value.reshape(-1)[places].double() - expected) / size if size else 0.0
