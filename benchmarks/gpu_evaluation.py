"""Evaluates Triton and CUDA C++ candidates on the GPU of this machine, good and bad ones in one
run, and records what was seen.

    python benchmarks/gpu_evaluation.py [--out benchmarks/results] [--language triton] [--language
    cuda]

Needs torch and triton with a CUDA device; runs the evaluator as `kevolve evaluate` does. Writes
gpu_evaluation.json.
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
GOOD = {name: DATA / f"{name}_rows.py" for name in ("triton", "cuda")}
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
'''  # noqa: E501
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
"""  # noqa: E501


FUSED_CUDA = r"""
import torch
import torch.nn as nn
from harness.native import load_cuda

SOURCE = r'''
#include <cuda_fp16.h>

// One block a row, eight values of it in the registers of each thread.
extern "C" __global__ void __launch_bounds__(512)
fused(const uint4* __restrict__ x, const uint4* __restrict__ r, const uint4* __restrict__ w, uint4* __restrict__ y,
      uint4* __restrict__ t, float eps) {
    __shared__ float partial[16];
    const long long at = blockIdx.x * 512ll + threadIdx.x;
    uint4 packed = x[at], other = r[at];
    __half2* a = reinterpret_cast<__half2*>(&packed);
    const __half2* b = reinterpret_cast<const __half2*>(&other);
    float2 wide[4];
    float sum = 0.0f;
    for (int i = 0; i < 4; ++i) {
        a[i] = __hadd2(a[i], b[i]);
        wide[i] = __half22float2(a[i]);
        sum += wide[i].x * wide[i].x + wide[i].y * wide[i].y;
    }
    t[at] = packed;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < 16; ++i) total += partial[i];
    const float scale = rsqrtf(total / 4096 + eps);
    const uint4 weights = w[threadIdx.x];
    const __half2* v = reinterpret_cast<const __half2*>(&weights);
    for (int i = 0; i < 4; ++i) a[i] = __hmul2(__floats2half2_rn(wide[i].x * scale, wide[i].y * scale), v[i]);
    y[at] = packed;
}
'''
library = load_cuda(SOURCE)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, x, residual):
        y, total = torch.empty_like(x), torch.empty_like(x)
        library.fused[x.shape[0], 512](x, residual, self.weight, y, total, 1e-6)
        return y, total
"""  # noqa: E501


def bad(good: str, language: str) -> dict[str, str]:
    """Name -> a candidate that misbehaves."""
    if language == "cuda":
        return {
            "wrong": good.replace("* w[c] + total", "* w[c] - total"),
            "illegal address": good.replace(
                "y[start + c] = tanhf", "y[(start + c + 1) * 1000000000ll] = tanhf"
            ),
            "hangs on the device": good.replace(
                "float sum = 0.0f;",
                "float sum = 0.0f; while (*(volatile const float*)w == *(volatile const float*)w) "
                "{}",
            ),
            "does not compile": good.replace("float sum = 0.0f;", "floot sum = 0.0f;"),
            "too much shared memory": good.replace("4 * threads]", "400_000]"),
            "a tensor on the host": good.replace("y, x.shape[1])", "y.cpu(), x.shape[1])"),
            "host code, for nvcc": good.replace(
                "#include <cstdint>", "#include <cstdint>\n#include <vector>"
            ),
            "launches nothing": good.replace(
                "        return y\n",
                "        return torch.tanh(x) * self.weight + x.sum(-1, keepdim=True)\n",
            ).replace(
                "        library.rows[x.shape[0], threads, 4 * threads](x, self.weight, y, "
                "x.shape[1])\n",
                "",
            ),
        }
    return {
        "wrong": good.replace("* weight + total", "* weight - total"),
        "illegal address": good.replace(
            "tl.store(y + row * width + column,", "tl.store(y + (row + 1) * 1000000000 + column,"
        ),
        "hangs on the device": good.replace(
            "    total = tl.sum(value, axis=0)\n",
            "    total = tl.sum(value, axis=0)\n    while tl.load(w) == tl.load(w):\n"
            "        total += tl.load(w)\n",
        ),
        "does not compile": good.replace("tl.sum(value, axis=0)", "tl.sum(value, axis=7)"),
        "framework only": good.replace(
            "        return y\n",
            "        return torch.tanh(x) * self.weight + x.sum(-1, keepdim=True)\n",
        ),
        "out of memory": good.replace(
            "        y = torch.empty_like(x)", "        y = torch.empty(1 << 42, device=x.device)"
        ),
    }


async def run(out: Path, languages: list[str]) -> None:
    record: dict[str, object] = {}
    async with recording.judge(record) as executor:
        for language in languages:
            found: dict[str, object] = {}
            record[language] = found
            await _screening(executor, found, language)
            await _timed(executor, found, language)
    recording.write(out, "gpu_evaluation", record)


async def _screening(executor: LocalExecutor, record: dict[str, object], language: str) -> None:
    """Build and verify: the good one, every bad one, the good one again."""
    task = await executor.open_task(TASK.read_text(), str(TASK), "cuda", timed=False)
    good = GOOD[language].read_text()
    rows, times = [], []
    candidates = [
        ("good", good),
        *bad(good, language).items(),
        *((f"good again {i}", f"{good}\n# {i}\n") for i in range(5)),
    ]
    for name, source in candidates:
        began = time.perf_counter()
        request = EvaluationRequest(Candidate(source, language), "check", "verify")
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
        print(
            f"{name:22s} {found.status:12s} {seconds:6.2f} "
            f"s  {stages}  {[s.name for s in found.signals]}"
        )
        print(f"    {found.message[:300]}")
    record["screening"] = rows
    record["verified_after_s"] = statistics.median(times)


async def _timed(executor: LocalExecutor, record: dict[str, object], language: str) -> None:
    """All stages for a candidate that should win, twice, and the task's own baselines."""
    began = time.perf_counter()
    task = await executor.open_task(LARGE, "", "cuda")
    record["open_s"] = time.perf_counter() - began
    for case in task.cases:
        print(
            f"{case.name}: baselines {case.baselines_us}, roofline {case.roofline_time_us:.1f} us, "
            f"{case.families}"
        )
    found = []
    for purpose in ("search", "search", "confirm"):
        began = time.perf_counter()
        request = EvaluationRequest(
            Candidate({"triton": FUSED, "cuda": FUSED_CUDA}[language], language), purpose
        )  # type: ignore[arg-type]
        evaluation = await executor.evaluate(task, request, "cuda")
        seconds = time.perf_counter() - began
        recording.show(evaluation, purpose, seconds)
        found.append({"purpose": purpose, "seconds": seconds, "evaluation": to_json(evaluation)})
    record["timed"] = found


if __name__ == "__main__":
    recording.need_device()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument(
        "--language", choices=("triton", "cuda"), action="append", help="default: both"
    )
    arguments = parser.parse_args()
    asyncio.run(run(arguments.out, arguments.language or ["triton", "cuda"]))
