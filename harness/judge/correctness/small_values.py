"""Elements that are so small compared with the rest of an output that its limits would not detect
if they were missing.

Errors are measured relative to the size of an output and of its rows, as rounding errors are. So
columns that are a millionth of the rest would pass unwritten. Elements that are this small in every
draw are identified by their places, and the error of each order of magnitude among them is measured
separately. The limit is generous, since honest sums lose small results next to large ones: a
quarter, or four times the framework's own error. Elements that the framework itself loses are not
checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .distance import blocks, rms

if TYPE_CHECKING:
    import torch

LIMIT, FACTOR = 0.25, 4.0  # allowed relative error of a group; also as a multiple of framework's
LEAST_COUNT, LEAST_SHARE = 16, 1 / 256  # least size of a group: skipping fewer saves no work
LEAST_DRAWS = 3  # with two draws, too many elements would be small by chance
LEAST_VALUE = 1e-30  # honest intermediate results may flush smaller values to zero
MOST_PLACES = 1 << 16  # the most elements of a group, chosen at random


@dataclass(frozen=True)
class Faint:
    """A group of elements of one order of magnitude. places: indices in the flat output, int64.
    size: the largest value of any of them, relative to the root mean square of its output.
    framework: the framework's relative error of the group. limit: the allowed one."""

    places: torch.Tensor
    size: float
    framework: float
    limit: float


def find(
    draws: Sequence[torch.Tensor], framework: Sequence[torch.Tensor], below: float
) -> tuple[Faint, ...]:
    """Find the groups of one real, floating output. draws: its expected values for several plain
    inputs. framework: the framework's results for the first of them. below: the allowed error of an
    element, relative to the root mean square of the output; smaller elements could stay
    unwritten."""
    import torch

    if len(draws) < LEAST_DRAWS or not draws[0].numel():
        return ()
    sizes = [rms(draw) for draw in draws]
    if not all(0 < size < math.inf for size in sizes):
        return ()
    # values that may be flushed to zero are not checked
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
    """Return the value below which a result of this dtype may be flushed to zero."""
    import torch

    return max(4 * torch.finfo(dtype).tiny, LEAST_VALUE)


def select_between(
    draws: Sequence[torch.Tensor], sizes: Sequence[float], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the flat places whose largest value over all draws, relative to these sizes, lies
    between two limits, and these values."""
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
    """Return the first group whose error is above its limit, its error, and the places of its
    elements that are small in this draw as well; None if there is none."""
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
    """Return the norm-wise relative error of these elements; 0 where the reference is zero."""
    expected = reference.reshape(-1)[places].double()
    size = rms(expected)
    return rms(value.reshape(-1)[places].double() - expected) / size if size else 0.0
