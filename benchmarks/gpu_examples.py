"""Judges the Triton start of every example on the GPU of this machine, against all its baselines,
and records what was seen.

    python benchmarks/gpu_examples.py [--out benchmarks/results] [--only NAME ...] [--confirm]

NAME is a folder of examples/. Needs torch and triton with a CUDA device; runs the evaluator as
`kevolve evaluate` does. Writes gpu_examples.json after every example, so that an interrupted run
leaves what it saw. Every baseline of every case is timed once when the task is opened; the
strongest is then timed in turns with the kernel. --confirm asks for the measurement that ends a
session instead: fresh process pairs, every baseline in turns, held-out cases; it takes several
times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

import recording

from harness.types import Candidate, EvaluationRequest, to_json
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.local import LocalExecutor

EXAMPLES = recording.ROOT / "examples"


async def run(out: Path, only: list[str], confirm: bool) -> int:
    """The number of examples that were not right."""
    record: dict[str, object] = {}
    found: dict[str, object] = {}
    failures = 0
    async with recording.judge(record) as executor:
        record["examples"] = found
        for folder in folders(only):
            began = time.perf_counter()
            try:
                found[folder.name] = entry = await _example(executor, folder, confirm)
            except KEvolveError as error:
                found[folder.name] = entry = {"status": "error", "message": str(error)}
                print(f"{folder.name}: {error}", flush=True)
            entry["seconds"] = time.perf_counter() - began
            failures += entry["status"] != "correct"
            recording.write(out, "gpu_examples", record)
    recording.write(out, "gpu_examples", record)
    return failures


def folders(only: list[str]) -> list[Path]:
    """The examples with a Triton start; all, or those that were named. Raises SystemExit for a name
    that is none."""
    every = {p.parent.name: p.parent for p in sorted(EXAMPLES.glob("*/start_triton.py"))}
    if unknown := [name for name in only if name not in every]:
        raise SystemExit(
            f"no example {unknown[0]!r} with a start_triton.py; there are: {', '.join(every)}"
        )
    return [every[name] for name in only] or list(every.values())


async def _example(executor: LocalExecutor, folder: Path, confirm: bool) -> dict[str, object]:
    path = next(p for p in (folder / "task_cuda.py", folder / "task.py") if p.is_file())
    began = time.perf_counter()
    task = await executor.open_task(path.read_text(), str(path), "cuda")
    opened = time.perf_counter() - began
    print(f"{task.name}: opened in {opened:.1f} s; {'; '.join(task.notes)}", flush=True)
    for case in task.visible_cases:
        times = {name: round(us, 2) for name, us in case.baselines_us.items()}
        print(
            f"    {case.name}: {times}, roofline {case.roofline_time_us:.1f} us, families "
            f"{case.families}, without {case.dropped_families}"
        )
    start = Candidate((folder / "start_triton.py").read_text(), "triton")
    request = EvaluationRequest(start, "confirm" if confirm else "search")
    evaluation = await executor.evaluate(task, request, "cuda")
    recording.show(evaluation, folder.name, time.perf_counter() - began)
    return {
        "status": evaluation.status,
        "task": path.name,
        "open_s": opened,
        "notes": list(task.notes),
        "cases": to_json(task.visible_cases),
        "evaluation": to_json(evaluation),
    }


if __name__ == "__main__":
    recording.need_device()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--confirm", action="store_true")
    options = parser.parse_args()
    raise SystemExit(1 if asyncio.run(run(options.out, options.only, options.confirm)) else 0)
