"""Whether passages can be found by meaning here, and what it would bring: for `kevolve doctor`.
Loads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from kevolve_mcp.errors import UsageError
from kevolve_mcp.settings import Settings

from .chroma import address
from .models import PACKAGES, lacking, place, remedy

# from benchmarks/results/retrieval.json; a test compares
GAIN = (
    "words and signals find an acceptable page among the first five in 95.5 % and notice in 77 % "
    "that no page answers; vectors make that 96.6 % and 81 %; where pages do not say how they are "
    "asked for, 94.2 % becomes 96.2 %"
)


@dataclass(frozen=True)
class State:
    """fine: as set, or off. remedy: how to fix it; "" where it is fine."""

    fine: bool
    message: str
    remedy: str = ""


def state(settings: Settings) -> State:
    """Off is fine: words and signals find nearly as much."""
    model = settings.vectors
    if not model:
        missing = lacking(PACKAGES[0])
        how = (
            f"{remedy(missing)}; then KEVOLVE_VECTORS={PACKAGES[0]}"
            if missing
            else f"KEVOLVE_VECTORS={PACKAGES[0]}"
        )
        return State(True, f"off: {GAIN}. To have them: {how}")
    try:
        where = place(model)
        if settings.vectors_server:
            address(settings.vectors_server)
    except UsageError as error:
        return State(False, error.message, error.hint)
    if missing := lacking(model, settings.vectors_server):
        return State(
            False,
            f"KEVOLVE_VECTORS={model}, but not installed: {', '.join(missing)}; words and signals "
            "find alone",
            remedy(missing),
        )
    kept = (
        f"on the Chroma server {settings.vectors_server}"
        if settings.vectors_server
        else "in the cache folder"
    )
    return State(True, f"{model} ({where}), vectors kept {kept}")
