"""How far an honest kernel's values may be off on which a reference decides."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Slack:
    """The largest honest error of such a value, relative to the size of the terms behind it: the
    oracle's floor 2 u + g u sqrt(K), see judge.correctness.tolerance, with u the unit roundoff and
    K the roundings behind the value, at most `most`. The growth g is `least`, or `repeated` times
    sqrt(K) / 2 where that is more."""

    unit: float
    least: float
    repeated: float
    most: int

    def of(self, terms: int) -> float:
        """Return the error with so many roundings behind the value."""
        root = math.sqrt(max(1, min(terms, self.most)))
        return self.unit * (2 + max(self.least, self.repeated * root / 2) * root)

    @property
    def largest(self) -> float:
        """The error with as many roundings as there can be."""
        return self.of(self.most)
