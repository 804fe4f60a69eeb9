"""What a compiler made of each kernel or hot loop: long listings, kept as artifacts and read in
pieces; a short form for answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.types import Evaluation, StageReport

if TYPE_CHECKING:
    from kevolve_mcp.store import Store

# of a stage's data: name -> text from the judge, name -> {"artifact", "characters"} in the store
FIELD = "listings"
KERNELS = 12  # in an answer; the section "profile" has all
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


def detach(store: Store, evaluation: Evaluation) -> Evaluation:
    """The same evaluation with its listings moved to the artifacts."""
    if not any(FIELD in s.data for s in evaluation.stages):
        return evaluation
    return replace(evaluation, stages=tuple(_detached(store, s) for s in evaluation.stages))


def _detached(store: Store, stage: StageReport) -> StageReport:
    kept = {
        name: {"artifact": store.artifacts.put(text), "characters": len(text)}
        if isinstance(text, str)
        else text
        for name, text in stage.data.get(FIELD, {}).items()
    }
    return replace(stage, data={**stage.data, FIELD: kept}) if FIELD in stage.data else stage


def text(store: Store, evaluation: Evaluation) -> str:
    """All listings of an evaluation, with an index that says at which cursor each begins."""
    found: dict[str, str] = {}
    for stage in evaluation.stages:
        for name, kept in stage.data.get(FIELD, {}).items():
            found[name] = (
                store.artifacts.text(kept["artifact"]) if isinstance(kept, dict) else str(kept)
            )
    if not found:
        return (
            "there is no listing: this evaluation compiled nothing that has one (what did not "
            "build has none)"
        )
    parts = [f"[{name}]\n{body.rstrip()}\n\n" for name, body in found.items()]
    width = max(map(len, found))
    offset = sum(len(_entry(name, 0, width)) for name in found) + 1
    index = []
    for name, part in zip(found, parts, strict=True):
        index.append(_entry(name, offset, width))
        offset += len(part)
    return "".join(index) + "\n" + "".join(parts)


def _entry(name: str, offset: int, width: int) -> str:
    return f"{name:<{width}}  cursor={offset:>8}\n"


def brief(data: dict[str, Any]) -> dict[str, Any]:
    """A stage's data as an answer carries it: names of listings instead of their places, and the
    first kernels in few words."""
    short = {name: value for name, value in data.items() if name not in (FIELD, "kernels", "loops")}
    if FIELD in data:
        short[FIELD] = list(data[FIELD])[: 4 * KERNELS]
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
