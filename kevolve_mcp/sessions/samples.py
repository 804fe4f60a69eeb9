"""What was timed, round by round: kept as an artifact, so that a later measurement of the same key
can join it."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.types import Evaluation, Samples, from_json
from kevolve_mcp.api.evaluations import SAMPLES
from kevolve_mcp.store import Store

# of the stage "time": Samples from the judge, {"artifact", "processes"} in the store
FIELD = SAMPLES


def detach(store: Store, evaluation: Evaluation) -> Evaluation:
    """The same evaluation with its rounds moved to the artifacts."""
    stages = []
    for stage in evaluation.stages:
        found = stage.data.get(FIELD)
        if isinstance(found, dict) and "rounds" in found:
            kept = {
                "artifact": store.artifacts.put(json.dumps(found)),
                "processes": from_json(Samples, found).processes,
            }
            stage = replace(stage, data={**stage.data, FIELD: kept})
        stages.append(stage)
    return replace(evaluation, stages=tuple(stages))


def load(store: Store, evaluation: Evaluation) -> Samples:
    """The rounds of a kept evaluation; none where they are not known."""
    for stage in evaluation.stages:
        if FIELD in stage.data:
            return from_json(
                Samples, json.loads(store.artifacts.text(stage.data[FIELD]["artifact"]))
            )
    return Samples()
