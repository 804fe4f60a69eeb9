"""Long parts of an evaluation, kept as artifacts: compiler listings of each kernel or hot loop,
which are read in parts, and the timed rounds, which a later measurement of the same key can
join."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.types import Evaluation, Samples, StageReport, from_json
from kevolve_mcp.api.evaluations import LISTINGS, SAMPLES
from kevolve_mcp.store import Store

if TYPE_CHECKING:
    from kevolve_mcp.store import Store


def detach_listings(store: Store, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with its listings moved to the artifacts."""
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


def listings_text(store: Store, evaluation: Evaluation) -> str:
    """Return all listings of an evaluation, with an index of the cursors where they begin."""
    listings: dict[str, str] = {}
    for stage in evaluation.stages:
        for name, kept in stage.data.get(LISTINGS, {}).items():
            listings[name] = (
                store.artifacts.text(kept["artifact"]) if isinstance(kept, dict) else str(kept)
            )
    if not listings:
        return "there is no listing: the candidate did not build, or has no native code"
    parts = [f"[{name}]\n{body.rstrip()}\n\n" for name, body in listings.items()]
    width = max(map(len, listings))
    offset = sum(len(_entry(name, 0, width)) for name in listings) + 1
    index = []
    for name, part in zip(listings, parts, strict=True):
        index.append(_entry(name, offset, width))
        offset += len(part)
    return "".join(index) + "\n" + "".join(parts)


def _entry(name: str, offset: int, width: int) -> str:
    return f"{name:<{width}}  cursor={offset:>8}\n"


def detach_samples(store: Store, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with its rounds moved to the artifacts."""
    stages = []
    for stage in evaluation.stages:
        samples = stage.data.get(SAMPLES)
        if isinstance(samples, dict) and "rounds" in samples:
            kept = {
                "artifact": store.artifacts.put(json.dumps(samples)),
                "processes": from_json(Samples, samples).processes,
            }
            stage = replace(stage, data={**stage.data, SAMPLES: kept})
        stages.append(stage)
    return replace(evaluation, stages=tuple(stages))


def load_samples(store: Store, evaluation: Evaluation) -> Samples:
    """Return the rounds of a stored evaluation, none where they are not known."""
    for stage in evaluation.stages:
        if SAMPLES in stage.data:
            return from_json(
                Samples, json.loads(store.artifacts.text(stage.data[SAMPLES]["artifact"]))
            )
    return Samples()
