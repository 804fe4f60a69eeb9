"""What a device's bursts take where their figure does not show it, per call: by the mean, since a
few of them may hide the work of all."""

from __future__ import annotations

from collections import defaultdict


class BurstMeans:
    """Adds up nanoseconds of bursts by side and length: calls alone are bursts of one."""

    def __init__(self) -> None:
        self._bursts_ns: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def add(self, name: str, calls: int, ns: int) -> None:
        """Add a burst of a side."""
        self._bursts_ns[name, calls].append(ns)

    def call_us(self, name: str, calls: int) -> float:
        """Return the mean microseconds of a call in bursts of this length, 0 without any."""
        bursts_ns = self._bursts_ns.get((name, calls), [])
        return sum(bursts_ns) / 1e3 / calls / len(bursts_ns) if bursts_ns else 0.0
