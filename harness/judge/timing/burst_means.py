"""What a device's bursts take where their figure does not show it, per call: by the mean, since a
few of them may hide the work of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence


class BurstMeans:
    """Adds up nanoseconds of bursts by side and length: calls alone are bursts of one."""

    def __init__(self) -> None:
        self._bursts_ns: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def add(self, name: str, calls: int, ns: int) -> None:
        """Add a burst of a side."""
        self._bursts_ns[name, calls].append(ns)

    def call_us(self, name: str, calls: int) -> float:
        """Return the mean microseconds of a call in bursts of this length, 0 without any."""
        return _mean_us(self._bursts_ns.get((name, calls), []), calls)

    def but_one_us(self, name: str, calls: int) -> float:
        """Return the same without the largest of at least three bursts: a compilation, say, which
        speeds up nothing but its own burst."""
        bursts_ns = sorted(self._bursts_ns.get((name, calls), []))
        return _mean_us(bursts_ns[:-1] if len(bursts_ns) > 2 else bursts_ns, calls)


def _mean_us(bursts_ns: Sequence[int], calls: int) -> float:
    return sum(bursts_ns) / 1e3 / calls / len(bursts_ns) if bursts_ns else 0.0
