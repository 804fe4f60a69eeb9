"""Theoretical occupancy: how many blocks one multiprocessor can hold at once, and which resource
limits them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Occupancy:
    """blocks: resident per multiprocessor (0: the kernel cannot be launched). warps: of all
    resident blocks, at most `max_warps`. limiter: the resource that runs out first. limits: the
    blocks that each resource alone would allow."""

    blocks: int
    warps: int
    max_warps: int
    limiter: str
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """Resident warps over the most that the hardware tracks, 0 to 1."""
        return self.warps / self.max_warps


def tightest(limits: dict[str, int], warps_per_block: int, max_warps: int) -> Occupancy:
    """Return the occupancy under the smallest of the limits; of equal ones the first."""
    limiter = min(limits, key=lambda name: limits[name])
    blocks = max(0, limits[limiter])
    return Occupancy(
        blocks, min(blocks * warps_per_block, max_warps), max_warps, limiter, dict(limits)
    )


def round_up(value: int, granule: int) -> int:
    """Round up to a multiple of `granule`."""
    return -(-value // granule) * granule
