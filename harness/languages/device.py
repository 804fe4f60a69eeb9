"""What languages of GPU kernels have in common: their static facts are those of each launched
kernel (judge.compiled)."""

from __future__ import annotations

from ..types import Signal
from .base import Language

# below this share of the resident warps little latency is hidden by other warps
LOW_OCCUPANCY = 0.25


class DeviceLanguage(Language):
    """A language whose kernels run on a device."""

    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        """From the facts of compiled kernels (judge.offline): spills and occupancy."""
        signals = []
        if facts.get("spills", 0) > 0:
            signals.append(
                Signal(
                    "register_spill",
                    f"{facts['spills']:.0f} spilled registers or accesses to private memory",
                    dict(facts),
                )
            )
        if 0 < facts.get("occupancy", 1) < LOW_OCCUPANCY:
            signals.append(
                Signal(
                    "low_occupancy",
                    f"{facts['occupancy']:.0%} of the resident warps are possible",
                    dict(facts),
                )
            )
        return tuple(signals)
