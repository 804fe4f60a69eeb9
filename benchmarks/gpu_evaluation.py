"""Evaluates Triton candidates on the GPU of this machine, good and bad ones in one run, and records what was seen.

    python benchmarks/gpu_evaluation.py [--out benchmarks/results]

Needs torch and triton with a CUDA device; runs the evaluator as `kevolve evaluate` does. Writes gpu_evaluation.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.types import Candidate, EvaluationRequest, to_json  # noqa: E402
from kevolve_mcp.executors.local import LocalExecutor  # noqa: E402

TASK = ROOT / "tests" / "data" / "candidates" / "task.py"
GOOD = ROOT / "tests" / "data" / "candidates" / "triton_rows.py"
LARGE = '''
import torch
import torch.nn as nn

CASES = {"decode": {"rows": 64}, "prefill": {"rows": 8192}}


class Model(nn.Module):
    """RMSNorm of x + residual, fp16, hidden 4096: both results are returned."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, x, residual):
        total = x + residual
        wide = total.float()
        normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return normal.to(x.dtype) * self.weight, total


def get_inputs(rows=64):
    return [torch.randn(rows, 4096, dtype=torch.float16), torch.randn(rows, 4096, dtype=torch.float16)]


def get_init_inputs():
    return [4096]
'''
FUSED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

TUNABLES = {"WARPS": [4, 8, 16]}
PARAMS = {"WARPS": 8}


@triton.jit
def fused(x, r, w, y, t, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    a = tl.load(x + row * width + column, mask=inside, other=0.0)
    b = tl.load(r + row * width + column, mask=inside, other=0.0)
    total = a + b
    wide = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    weight = tl.load(w + column, mask=inside, other=0.0)
    tl.store(t + row * width + column, total, mask=inside)
    tl.store(y + row * width + column, (wide * scale).to(tl.float16) * weight, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, x, residual):
        y, total = torch.empty_like(x), torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        fused[(x.shape[0],)](x, residual, self.weight, y, total, x.shape[1], 1e-6, BLOCK=block, num_warps=PARAMS["WARPS"])
        return y, total
"""


def bad(good: str) -> dict[str, str]:
    """Name -> a candidate that misbehaves."""
    return {
        "wrong": good.replace("* weight + total", "* weight - total"),
        "illegal address": good.replace("tl.store(y + row * width + column,", "tl.store(y + (row + 1) * 1000000000 + column,"),
        "hangs on the device": good.replace(
            "    total = tl.sum(value, axis=0)\n",
            "    total = tl.sum(value, axis=0)\n    while tl.load(w) == tl.load(w):\n        total += tl.load(w)\n",
        ),
        "does not compile": good.replace("tl.sum(value, axis=0)", "tl.sum(value, axis=7)"),
        "framework only": good.replace(
            "        return y\n", "        return torch.tanh(x) * self.weight + x.sum(-1, keepdim=True)\n"
        ),
        "out of memory": good.replace("        y = torch.empty_like(x)", "        y = torch.empty(1 << 42, device=x.device)"),
    }


async def run(out: Path) -> None:
    record: dict[str, object] = {"nvidia_smi": _smi()}
    with tempfile.TemporaryDirectory() as cache:
        async with LocalExecutor(None, Path(cache)) as executor:
            report = await executor.describe()
            record["targets"] = to_json(report.targets)
            record["isolation"] = report.isolation
            await _screening(executor, record)
            await _timed(executor, record)
    record["nvidia_smi_after"] = _smi()
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu_evaluation.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {out / 'gpu_evaluation.json'}")


async def _screening(executor: LocalExecutor, record: dict[str, object]) -> None:
    """Build and verify: the good one, every bad one, the good one again."""
    task = await executor.open_task(TASK.read_text(), str(TASK), "cuda", timed=False)
    good = GOOD.read_text()
    rows, times = [], []
    candidates = [("good", good), *bad(good).items(), *((f"good again {i}", f"{good}\n# {i}\n") for i in range(5))]
    for name, source in candidates:
        began = time.perf_counter()
        request = EvaluationRequest(Candidate(source, "triton"), "check", "verify")
        found = await executor.evaluate(task, request, "cuda")
        seconds = time.perf_counter() - began
        stages = {s.stage: round(s.seconds, 3) for s in found.stages}
        if name.startswith("good again"):
            times.append(seconds)
        rows.append(
            {
                "name": name,
                "status": found.status,
                "signals": [s.name for s in found.signals],
                "seconds": seconds,
                "stages": stages,
            }
        )
        print(f"{name:22s} {found.status:12s} {seconds:6.2f} s  {stages}  {[s.name for s in found.signals]}")
        print(f"    {found.message[:300]}")
    record["screening"] = rows
    record["verified_after_s"] = statistics.median(times)


async def _timed(executor: LocalExecutor, record: dict[str, object]) -> None:
    """All stages for a candidate that should win, twice, and the task's own baselines."""
    began = time.perf_counter()
    task = await executor.open_task(LARGE, "", "cuda")
    record["open_s"] = time.perf_counter() - began
    for case in task.cases:
        print(f"{case.name}: baselines {case.baselines_us}, roofline {case.roofline_us:.1f} us, {case.families}")
    found = []
    for purpose in ("search", "search", "confirm"):
        began = time.perf_counter()
        request = EvaluationRequest(Candidate(FUSED, "triton"), purpose)  # type: ignore[arg-type]
        evaluation = await executor.evaluate(task, request, "cuda")
        seconds = time.perf_counter() - began
        print(f"{purpose}: {evaluation.status} {evaluation.message} in {seconds:.1f} s")
        for case in evaluation.cases:
            print(
                f"    {case.name}: {case.speedup} {case.interval} {case.verdict} {case.baselines} own {case.latency_us} roof {case.roofline}"
            )
        for signal in evaluation.signals:
            print(f"    * {signal.name}: {signal.message}")
        print("   ", {s.stage: round(s.seconds, 2) for s in evaluation.stages}, evaluation.device_s)
        found.append({"purpose": purpose, "seconds": seconds, "evaluation": to_json(evaluation)})
    record["timed"] = found


def _smi() -> str:
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False, timeout=30)
        return done.stdout
    except OSError:
        return "nvidia-smi is not here"


if __name__ == "__main__":
    if shutil.which("nvidia-smi") is None:
        print("no NVIDIA device here: nothing to record")
        raise SystemExit(0)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    asyncio.run(run(parser.parse_args().out))
