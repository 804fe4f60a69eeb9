"""Elements that are small in one draw and large in another: behind a gate, say.

`small_values` knows such elements by their places, which is of no use where others are small in
each draw. Here they are known by their values: of each draw's elements those of one order of
magnitude, relative to the root mean square, are a group.

Values are also small by chance, where terms cancel. Their error is that of the terms, and large
beside them. Two things tell them apart. They are few: of normal values a share of 0.8 s is below s,
of their squares 0.8 sqrt(s), of products less; so a group counts only where it is 2 sqrt(s) of an
output at least. And the framework gets them wrong as well: a candidate may be off by so many times
the framework's error as it may be in the whole output, and a group of which that would be all is
not asked for.

A group's error is what all but a sixteenth of its elements are off by, relative to themselves: some
that cancel among many that do not say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .distance import rms
from .small_values import LEAST_COUNT, LEAST_SHARE, LIMIT, MOST_PLACES, least_value, select_between

if TYPE_CHECKING:
    import torch

USUAL = 2.0  # times sqrt(s): more than chance leaves below s
LEFT_OUT = 1 / 16  # of a group's elements; zeros there are a quarter of its norm, as for places


@dataclass(frozen=True)
class Decade:
    """Values of one order of magnitude. low, size: between what they lie, relative to the root mean
    square of their output. framework: the error of the framework's own; limit: what is allowed."""

    low: float
    size: float
    framework: float
    limit: float


def find(
    draws: Sequence[torch.Tensor], framework: Sequence[torch.Tensor], below: float, ratio: float
) -> tuple[Decade, ...]:
    """The groups of one real, floating output. draws: its expected values for plain inputs;
    framework: the framework's own for these. below: what an element may be off by, relative to the
    root mean square. ratio: what a candidate may be off by, over what the framework is."""
    errors: dict[tuple[float, float], float] = {}
    below = min(below, 1.0)
    for expected, result in zip(draws, framework, strict=True):
        size = rms(expected)
        if not 0 < size < math.inf or below <= 0:
            continue
        # of decades with the same bounds in every draw: what may be flushed to zero is not asked
        lowest = least_value(result.dtype) / size
        bounds = [
            (10.0**power, min(10.0 ** (power + 1), below))
            for power in range(math.ceil(math.log10(lowest)), math.ceil(math.log10(below)))
        ]
        for pair, places in _groups(expected, size, bounds):
            errors[pair] = max(errors.get(pair, 0.0), _error(result, expected, places))
    return tuple(
        Decade(*pair, error, max(LIMIT, ratio * error))
        for pair, error in sorted(errors.items())
        if ratio * error < 1.0
    )


def find_lost_decade(
    candidate: torch.Tensor, expected: torch.Tensor, decades: Sequence[Decade]
) -> tuple[Decade, float, torch.Tensor] | None:
    """The first decade whose error is above its limit, its error, and where its elements lie in
    this draw; None if none is."""
    size = rms(expected) if decades else 0.0
    if not 0 < size < math.inf:
        return None
    by_bounds = {(each.low, each.size): each for each in decades}
    for pair, places in _groups(expected, size, list(by_bounds)):
        if (error := _error(candidate, expected, places)) > by_bounds[pair].limit:
            return by_bounds[pair], error, places
    return None


def _groups(
    expected: torch.Tensor, size: float, bounds: Sequence[tuple[float, float]]
) -> Iterator[tuple[tuple[float, float], torch.Tensor]]:
    """Bounds, and the flat places of some elements between them, where there are more than chance
    leaves."""
    import torch

    if not bounds:
        return
    candidates, values = select_between(
        [expected], [size], min(low for low, _ in bounds), max(high for _, high in bounds)
    )
    for low, high in bounds:
        places = candidates[(values >= low) & (values < high)]
        share = max(LEAST_SHARE, USUAL * math.sqrt(high))
        if places.numel() < max(LEAST_COUNT, share * expected.numel()):
            continue
        if places.numel() > MOST_PLACES:
            places = places[torch.randperm(places.numel(), device=places.device)[:MOST_PLACES]]
        yield (low, high), places


def _error(value: torch.Tensor, reference: torch.Tensor, places: torch.Tensor) -> float:
    """What all but LEFT_OUT of these elements are off by, relative to themselves."""
    expected = reference.reshape(-1)[places].double()
    off = (value.reshape(-1)[places].double() - expected).abs() / expected.abs()
    return float(off.kthvalue(max(1, math.ceil((1 - LEFT_OUT) * off.numel()))).values)
