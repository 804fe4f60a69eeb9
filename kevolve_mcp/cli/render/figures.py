"""A session's best node, and what it made of its device, in words: for the board and for what is
shown later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp import api
from kevolve_mcp.quantities import NOTHING, duration, speedup
from kevolve_mcp.search import no_winner

if TYPE_CHECKING:
    from kevolve_mcp.driver.device_use import DeviceUse


def best_text(best: api.Node | None, correct: int) -> str:
    """n7  1.83× [1.79, 1.88]; without a best, why, where `correct` nodes were proved correct."""
    return (
        f"{best.id}  {speedup(best.fitness, best.interval)}"
        if best
        else f"{NOTHING} ({no_winner(correct)})"
    )


def device_use(use: DeviceUse) -> str:
    """What the search made of the device."""
    return (
        f"of {duration(use.wall_s)} the device was timed {use.timed:.0%}, kernels were checked "
        f"{use.checked:.0%}, it was idle while there were kernels {use.idle:.0%}"
    )
