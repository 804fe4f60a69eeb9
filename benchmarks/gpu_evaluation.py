"""Evaluates Triton candidates on the GPU of this machine, good and bad ones in one run, and records what was seen.

    python benchmarks/gpu_evaluation.py [--out benchmarks/results]

Needs torch and triton with a CUDA device; runs the evaluator as `kevolve evaluate` does. Writes gpu_evaluation.json.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path

import recording

from harness.types import Candidate, EvaluationRequest, to_json
from kevolve_mcp.executors.local import LocalExecutor

DATA = recording.ROOT / "tests" / "data" / "candidates"
TASK = DATA / "task.py"
GOOD = DATA / "triton_rows.py"
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
    record: dict[str, object] = {}
    async with recording.judge(record) as executor:
        await _screening(executor, record)
        await _timed(executor, record)
    recording.write(out, "gpu_evaluation", record)


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
        recording.show(evaluation, purpose, seconds)
        found.append({"purpose": purpose, "seconds": seconds, "evaluation": to_json(evaluation)})
    record["timed"] = found


if __name__ == "__main__":
    recording.need_device()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    asyncio.run(run(parser.parse_args().out))
