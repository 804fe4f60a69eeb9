"""What the stages of an evaluation found out beside its figures, as an answer carries it: in few
words, while the store keeps all."""

from __future__ import annotations

from typing import Any

from harness.types import Evaluation

# of a stage's data: name -> text from the judge, name -> {"artifact", "characters"} in the store
LISTINGS = "listings"
KERNELS = 12  # in an answer; the section "profile" has all
LOG = 1500  # characters of the end of a log
_BRIEF = (
    "kernel",
    "configuration",
    "cases",
    "launches",
    "registers",
    "spills",
    "stack_bytes",
    "shared_bytes",
    "matrix_instructions",
)


def facts(evaluation: Evaluation) -> dict[str, Any]:
    """Show what build and profile found, by stage, and the end of the log of the stage that
    failed."""
    found: dict[str, Any] = {
        s.stage: _brief(s.data)
        for s in evaluation.stages
        if s.data and s.stage in ("build", "profile")
    }
    if evaluation.status != "correct" and (
        log := next((s.log for s in evaluation.stages if not s.ok and s.log), "")
    ):
        found["log"] = {"end": log[-LOG:]}
    return found


def _brief(data: dict[str, Any]) -> dict[str, Any]:
    """A stage's data with names of listings instead of their places, and the first kernels in few
    words."""
    short = {
        name: value for name, value in data.items() if name not in (LISTINGS, "kernels", "loops")
    }
    if LISTINGS in data:
        short[LISTINGS] = list(data[LISTINGS])[: 4 * KERNELS]
    if "loops" in data:
        short["loops"] = data["loops"][:KERNELS]
        short["loops_not_shown"] = max(0, len(data["loops"]) - KERNELS)
    if "kernels" in data:
        rows = sorted(data["kernels"], key=lambda k: bool(k.get("autotuned_alternative")))
        short["kernels"] = [_row(row) for row in rows[:KERNELS]]
        short["kernels_not_shown"] = max(0, len(rows) - KERNELS)
    return short


def _row(kernel: dict[str, Any]) -> dict[str, Any]:
    row = {name: kernel[name] for name in _BRIEF if name in kernel}
    occupancy = kernel.get("occupancy", {})
    row["occupancy"] = {
        name: occupancy[name] for name in ("fraction", "limiter") if name in occupancy
    }
    if kernel.get("refused"):
        row["refused"] = kernel["refused"]
    if kernel.get("autotuned_alternative"):
        row["autotuned_alternative"] = True
    return row
