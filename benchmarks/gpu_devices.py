"""Evaluates on every GPU of this machine at once, and compares the times with those of one
evaluation alone.

    python benchmarks/gpu_devices.py [--out benchmarks/results] [--rounds 2]

Needs torch and triton with two or more CUDA devices of one model. Prints a JSON record and writes
it as gpu_devices.json: which GPU each evaluation ran on, whether they overlapped, and each case's
time beside others over its time alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu_evaluation import FUSED, LARGE  # noqa: E402
from harness.types import Candidate, EvaluationRequest, Task, to_json  # noqa: E402
from kevolve_mcp.executors import LocalExecutor  # noqa: E402
from kevolve_mcp.executors.devices import alike  # noqa: E402


async def one(executor: LocalExecutor, task: Task, name: str) -> dict[str, Any]:
    """A full evaluation of a text that no other evaluation has."""
    began = time.monotonic()
    request = EvaluationRequest(Candidate(f"{FUSED}\n# {name}\n", "triton"))
    found = await executor.evaluate(task, request, "cuda")
    ended = time.monotonic()
    timed = next((s.data for s in found.stages if s.stage == "time"), {})
    return {
        "name": name,
        "device": found.environment.facts.get("device", ""),
        "status": found.status,
        "message": found.message,
        "signals": [s.name for s in found.signals],
        "began_s": began,
        "ended_s": ended,
        "device_seconds": found.device_seconds,
        "latency_us": {c.name: c.latency_us for c in found.cases},
        "baseline_us": {c.name: c.baselines.get(c.baseline or "") for c in found.cases},
        "speedup": {c.name: c.speedup for c in found.cases},
        "blocks": timed.get("blocks"),
    }


async def run(rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        async with LocalExecutor(None, Path(cache)) as executor:
            there = await executor.devices()
            fitting = alike(there, "cuda")
            if len(fitting) < 2:
                raise SystemExit(
                    f"two GPUs of one model are needed, here: {[str(d) for d in there] or 'none'}"
                )
            task = await executor.open_task(LARGE, "", "cuda")
            names = [f"warm {d.index}" for d in fitting]
            # every judge started, task open in each
            warm = await asyncio.gather(*(one(executor, task, name) for name in names))
            alone = [await one(executor, task, f"alone {i}") for i in range(rounds)]
            names = [f"beside {d.index}" for d in fitting]
            beside = [
                await asyncio.gather(*(one(executor, task, f"{i} {name}") for name in names))
                for i in range(rounds)
            ]
            return {
                "devices": [to_json(d) for d in there],
                "warm": warm,
                "alone": alone,
                "side_by_side": beside,
                "each_on_its_own_gpu": all(
                    len({e["device"] for e in group}) == len(fitting) for group in beside
                ),
                "overlapped": all(
                    max(e["began_s"] for e in g) < min(e["ended_s"] for e in g) for g in beside
                ),
                "time_beside_over_alone": _ratios(alone, [e for group in beside for e in group]),
                "seconds_alone": _mean([e["ended_s"] - e["began_s"] for e in alone]),
                "seconds_side_by_side": _mean(
                    [max(e["ended_s"] for e in g) - min(e["began_s"] for e in g) for g in beside]
                ),
            }


def _ratios(alone: list[dict[str, Any]], beside: list[dict[str, Any]]) -> dict[str, float]:
    """By case, of candidate and baseline: the mean beside others over the mean alone; 1 means
    unaffected."""
    found = {}
    for what in ("latency_us", "baseline_us"):
        for case in alone[0][what]:
            found[f"{case} {what}"] = _mean([e[what][case] for e in beside]) / _mean(
                [e[what][case] for e in alone]
            )
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    record = json.dumps(asyncio.run(run(options.rounds)), indent=1)
    print(record)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_devices.json").write_text(record + "\n")
