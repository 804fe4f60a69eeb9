"""Elements that are small in one draw and large in another, for example behind a gate.

`small_values` identifies small elements by their places, which fails where others are small in each
draw. Here they are identified by their values: the elements of a draw with one order of magnitude,
relative to the root mean square, form a group.

Values can also be small by chance, where terms cancel. Their error is then that of the terms, and
large compared with the values. Such values differ in two ways. They are few: of normal values a
share of 0.8 s is below s, of their squares 0.8 sqrt(s), of products less. So a group counts only if
it makes up at least 2 sqrt(s) of an output. And the framework gets them wrong as well: a candidate
may exceed the framework's error in a group by the same factor as in the whole output, and a group
where this would allow an error of 100 % is not checked.

A group's error is the relative error that all but a sixteenth of its elements stay below, so that a
few elements that cancel do not matter.
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

USUAL = 2.0  # times sqrt(s): a larger share than chance leaves below s
LEFT_OUT = 1 / 16  # share of elements ignored; if zero, they are a quarter of the group's norm


@dataclass(frozen=True)
class Decade:
    """A group of values of one order of magnitude. low, size: its bounds, relative to the root mean
    square of the output. framework: the framework's error. limit: the allowed error."""

    low: float
    size: float
    framework: float
    limit: float


def find(
    draws: Sequence[torch.Tensor], framework: Sequence[torch.Tensor], below: float, ratio: float
) -> tuple[Decade, ...]:
    """Find the groups of one real, floating output. draws: its expected values for plain inputs.
    framework: the framework's results for them. below: the allowed error of an element, relative to
    the root mean square. ratio: a candidate's allowed error over the framework's."""
    errors: dict[tuple[float, float], float] = {}
    below = min(below, 1.0)
    for expected, result in zip(draws, framework, strict=True):
        size = rms(expected)
        if not 0 < size < math.inf or below <= 0:
            continue
        # decades have the same bounds in every draw; values that may be flushed to zero are skipped
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
    """Return the first decade whose error is above its limit, its error, and the places of its
    elements in this draw; None if there is none."""
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
    """Yield bounds and the flat places of elements between them (at most MOST_PLACES), where there
    are more than by chance."""
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
    """Return the relative error that all but LEFT_OUT of these elements stay within."""
    expected = reference.reshape(-1)[places].double()
    off = (value.reshape(-1)[places].double() - expected).abs() / expected.abs()
    return float(off.kthvalue(max(1, math.ceil((1 - LEFT_OUT) * off.numel()))).values)
