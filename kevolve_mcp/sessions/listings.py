"""What a compiler made of each kernel or hot loop: long listings, kept as artifacts and read in
pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.types import Evaluation, StageReport
from kevolve_mcp.api.stages import LISTINGS

if TYPE_CHECKING:
    from kevolve_mcp.store import Store


def detach(store: Store, evaluation: Evaluation) -> Evaluation:
    """The same evaluation with its listings moved to the artifacts."""
    if not any(LISTINGS in s.data for s in evaluation.stages):
        return evaluation
    return replace(evaluation, stages=tuple(_detached(store, s) for s in evaluation.stages))


def _detached(store: Store, stage: StageReport) -> StageReport:
    kept = {
        name: {"artifact": store.artifacts.put(text), "characters": len(text)}
        if isinstance(text, str)
        else text
        for name, text in stage.data.get(LISTINGS, {}).items()
    }
    return replace(stage, data={**stage.data, LISTINGS: kept}) if LISTINGS in stage.data else stage


def text(store: Store, evaluation: Evaluation) -> str:
    """All listings of an evaluation, with an index that says at which cursor each begins."""
    found: dict[str, str] = {}
    for stage in evaluation.stages:
        for name, kept in stage.data.get(LISTINGS, {}).items():
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
