"""Results of the reference on other inputs, as far as they are wrong.

An input that only decides where values are equal, a tie-break say, changes some results to others
that are right as well. A kernel that leaves it out is not detected by these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any


def settling(
    call: Callable[[Any], list[Any]],
    expected: Sequence[Any],
    alternatives: Sequence[Sequence[Any]],
) -> Callable[[Any], list[Any]]:
    """Return the call with the expected values where its results lie between right ones (whole
    numbers, truth values), and as far from these as from the nearest right one otherwise. expected:
    in high precision. alternatives: other right outputs, see rounding.compute_alternatives."""
    if not alternatives:
        return call

    def settled(inputs: Any) -> list[Any]:
        return [
            _settle(found, right, options)
            for found, right, *options in zip(call(inputs), expected, *alternatives, strict=True)
        ]

    return settled


def _settle(found: Any, expected: Any, options: Sequence[Any]) -> Any:
    import torch

    if found.is_complex() or found.shape != expected.shape:
        return found
    if not found.is_floating_point():
        right = [expected, *options]
        least, most = reduce(torch.minimum, right), reduce(torch.maximum, right)
        return torch.where((found >= least) & (found <= most) & (least != most), expected, found)
    wide, nearest = expected.double(), found.double() - expected.double()
    for option in options:
        other = option.double()
        differs = other != expected.to(option.dtype).double()
        nearest = torch.where(
            differs & ((found - other).abs() < nearest.abs()), found - other, nearest
        )
    return wide + nearest
