"""A session's best node and its use of the device in words, for the board and for later views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp import api
from kevolve_mcp.quantities import NOTHING, duration, speedup
from kevolve_mcp.search import no_winner

if TYPE_CHECKING:
    from kevolve_mcp.driver.device_use import DeviceUse


def best_text(best: api.Node | None, correct: int) -> str:
    """Return "n7  1.83× [1.79, 1.88]"; without a best node the reason. correct: the number of nodes
    proved correct."""
    return (
        f"{best.id}  {speedup(best.fitness, best.interval)}"
        if best
        else f"{NOTHING} ({no_winner(correct)})"
    )


def device_use(use: DeviceUse) -> str:
    """Return how the search used the device."""
    return (
        f"device use over {duration(use.wall_s)}: timing {use.timed:.0%}, checking "
        f"{use.checked:.0%}, idle while kernels waited {use.idle:.0%}"
    )
