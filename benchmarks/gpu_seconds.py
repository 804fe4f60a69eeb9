"""What a search pays for: seconds of opening, of an evaluation and of a hopeless one, of the Triton
start of every example on the GPU of this machine.

    python benchmarks/gpu_seconds.py [--out benchmarks/results] [--only NAME ...]
        [--confirm NAME ...]

NAME is a folder of examples/. Needs torch and triton with a CUDA device. A fresh judge opens each
task twice (the second time from what it remembers) and judges the start as a search does: twice in
full, each time as another text, and once behind the best, so that timing ends after one process.
--confirm: of these examples a confirmation, too. Writes gpu_seconds.json after every example.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import recording
from gpu_examples import folders

from harness.types import PROTOCOL_VERSION, Candidate, Evaluation, EvaluationRequest, Purpose, Task
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.local import LocalExecutor

BEYOND = 100.0  # F of a best that no kernel reaches
TIMES = 2


async def run(out: Path, only: list[str], confirm: list[str]) -> int:
    """The number of examples that were not right."""
    record: dict[str, object] = {"protocol": PROTOCOL_VERSION}
    found: dict[str, dict[str, Any]] = {}
    async with recording.judge(record) as executor:
        record["examples"] = found
        for folder in folders(only):
            try:
                found[folder.name] = await _example(executor, folder, folder.name in confirm)
            except KEvolveError as error:
                found[folder.name] = {"status": "error", "message": str(error)}
            print(folder.name, found[folder.name], flush=True)
            record["medians_s"] = _medians(found)
            recording.write(out, "gpu_seconds", record)
    recording.write(out, "gpu_seconds", record)
    print(record["medians_s"])
    return sum(entry["status"] != "correct" for entry in found.values())


async def _example(executor: LocalExecutor, folder: Path, confirm: bool) -> dict[str, Any]:
    path = next(p for p in (folder / "task_cuda.py", folder / "task.py") if p.is_file())
    text, opened = (folder / "start_triton.py").read_text(), []
    for _ in range(2):
        began = time.perf_counter()
        task = await executor.open_task(path.read_text(), str(path), "cuda")
        opened.append(round(time.perf_counter() - began, 2))
    entry: dict[str, Any] = {
        "cases": len(task.visible_cases),
        "open_s": opened[0],
        "again_s": opened[1],
    }
    plan: list[tuple[str, Purpose, float]] = [("search", "search", 0.0)] * TIMES
    plan.append(("behind", "search", BEYOND))
    if confirm:
        plan.append(("confirm", "confirm", 0.0))
    for number, (name, purpose, best) in enumerate(plan):
        candidate = Candidate(f"{text}\n# {number}\n", "triton")
        seen = await _judged(executor, task, EvaluationRequest(candidate, purpose, best=best))
        entry.setdefault(name, []).append(seen)
    return entry | {"status": entry["search"][0]["status"]}


async def _judged(
    executor: LocalExecutor, task: Task, request: EvaluationRequest
) -> dict[str, Any]:
    began = time.perf_counter()
    found: Evaluation = await executor.evaluate(task, request, "cuda")
    return {
        "status": found.status,
        "message": found.message[:200],
        "fitness": found.fitness,
        "verdicts": [c.verdict for c in found.cases],
        "seconds": round(time.perf_counter() - began, 2),
        "device_seconds": round(found.device_seconds, 2),
        "stages_s": {stage.stage: round(stage.seconds, 2) for stage in found.stages},
    }


def _medians(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Over all examples that were right, by what was done."""
    right = [entry for entry in found.values() if entry["status"] == "correct"]
    values = {
        "open": [entry["open_s"] for entry in right],
        "again": [entry["again_s"] for entry in right],
        **{
            name: [e["seconds"] for entry in right for e in entry.get(name, ())]
            for name in ("search", "behind", "confirm")
        },
    }
    return {name: round(statistics.median(seen), 2) for name, seen in values.items() if seen}


if __name__ == "__main__":
    recording.need_device()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--confirm", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    raise SystemExit(1 if asyncio.run(run(options.out, options.only, options.confirm)) else 0)
