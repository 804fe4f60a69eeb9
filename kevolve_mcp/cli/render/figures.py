"""A session's best node in words, for the board and for what is shown later."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.quantities import NOTHING, speedup
from kevolve_mcp.search import no_winner


def best_text(best: api.Node | None, correct: int) -> str:
    """n7  1.83× [1.79, 1.88]; without a best, why, where `correct` nodes were proved correct."""
    return (
        f"{best.id}  {speedup(best.fitness, best.interval)}"
        if best
        else f"{NOTHING} ({no_winner(correct)})"
    )
