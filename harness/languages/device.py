"""The common part of languages for GPU kernels: their static facts are those of each launched
kernel (judge.attribution.compiled_kernels)."""

from __future__ import annotations

from ..types import Signal
from .base import Language

# with a smaller share of the possible resident warps, other warps hide little latency
LOW_OCCUPANCY = 0.25


class DeviceLanguage(Language):
    """A language whose kernels run on a device."""

    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        """Explain compiled kernels by their spills and their occupancy."""
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
                    f"the kernel can keep only {facts['occupancy']:.0%} of the warps resident",
                    dict(facts),
                )
            )
        return tuple(signals)
