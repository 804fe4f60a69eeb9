"""Triton and CUDA C++ evaluated on a real device: right, wrong, broken in each way, and the next
one right again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from harness.native import find_toolkit, load_cuda
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Stage, Task
from kevolve_mcp.executors import LocalExecutor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.timeout(600),
]
CANDIDATES = Path(__file__).parents[3] / "data" / "candidates"
LANGUAGES = [
    pytest.param(
        "triton",
        marks=pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed"),
    ),
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not find_toolkit().version, reason="neither NVRTC nor nvcc is here"
        ),
    ),
]
T = TypeVar("T")
# language -> what goes wrong -> the change of the good text that makes it so
BAD = {
    "triton": {
        "wrong": ("* weight + total", "* weight - total"),
        "address": (
            "tl.store(y + row * width + column,",
            "tl.store(y + (row + 1) * 1000000000 + column,",
        ),
        "hang": (
            "    total = tl.sum(value, axis=0)\n",
            (
                "    total = tl.sum(value, axis=0)\n    while tl.load(w) == tl.load(w):\n"
                "        total += tl.load(w)\n"
            ),
        ),
        "compile": ("tl.sum(value, axis=0)", "tl.sum(value, axis=7)"),
    },
    "cuda": {
        "wrong": ("* w[c] + total", "* w[c] - total"),
        "address": ("y[start + c] = tanhf", "y[(start + c + 1) * 1000000000ll] = tanhf"),
        "hang": (
            "float sum = 0.0f;",
            "float sum = 0.0f; while (*(volatile const float*)w == *(volatile const float*)w) {}",
        ),
        "compile": ("float sum = 0.0f;", "floot sum = 0.0f;"),
    },
}


@dataclass
class Bench:
    """A judge with the small task open on the device, driven from synchronous tests."""

    run: Callable[[Awaitable[T]], T]
    executor: LocalExecutor
    task: Task

    def judge(
        self, source: str, language: str, through: Stage = "verify", policy: Policy | None = None
    ) -> Evaluation:
        request = EvaluationRequest(
            Candidate(source, language), "check", through, policy or Policy()
        )
        return self.run(self.executor.evaluate(self.task, request, "cuda"))


@pytest.fixture(scope="module")
def bench(judge_cache: Path) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        executor = LocalExecutor(None, judge_cache)
        path = CANDIDATES / "task.py"
        task = runner.run(executor.open_task(path.read_text(), str(path), "cuda"))
        yield Bench(runner.run, executor, task)
        runner.run(executor.close())


def good(language: str) -> str:
    return (CANDIDATES / f"{language}_rows.py").read_text()


def bad(language: str, how: str) -> str:
    old, new = BAD[language][how]
    text = good(language).replace(old, new)
    assert text != good(language)
    return text


def names(evaluation: Evaluation) -> list[str]:
    return [s.name for s in evaluation.signals]


def test_every_baseline_runs_on_the_device(bench: Bench) -> None:
    assert bench.task.notes == ()
    assert all({"eager", "compile"} <= set(case.baselines_us) for case in bench.task.visible_cases)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_right_kernel_is_right_and_timed(bench: Bench, language: str) -> None:
    found = bench.judge(good(language), language, "diagnose")
    assert found.status == "correct", found.message
    assert found.fitness is not None
    assert all(c.correct and c.latency_us for c in found.cases)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("how", "status", "signal"),
    [
        ("wrong", "incorrect", "wrong."),
        ("address", "crashed", "crash.illegal_address"),
        ("hang", "timed_out", "timeout.run"),
        ("compile", "build_failed", "compile_error"),
    ],
)
def test_a_bad_kernel_gets_its_verdict_and_leaves_nothing_behind(
    bench: Bench, language: str, how: str, status: str, signal: str
) -> None:
    found = bench.judge(bad(language, how), language)
    assert found.status == status, found.message
    assert any(name.startswith(signal) for name in names(found)), names(found)
    after = bench.judge(f"{good(language)}\n# after {how}\n", language)
    assert after.status == "correct", after.message


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_kernel_that_is_built_and_never_launched_needs_review(
    bench: Bench, language: str
) -> None:
    launch = "library.rows[x.shape[0], threads, 4 * threads](x, self.weight, y, x.shape[1])"
    lazy = good(language).replace(
        launch, "y = torch.tanh(x) * self.weight + x.sum(-1, keepdim=True)"
    )
    assert lazy != good(language)
    found = bench.judge(lazy, language)
    assert found.status == "needs_review", found.message
    assert "policy.no_native_kernel" in names(found)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_static_facts_are_those_of_the_launch(bench: Bench, language: str) -> None:
    found = bench.judge(good(language), language, "profile")
    profile = found.stages[-1].data
    (kernel,) = profile["kernels"]
    assert kernel["kernel"] == "rows"
    assert kernel["block"] == [64, 1, 1]
    assert kernel["shared_bytes"] == 256
    assert kernel["registers"]["registers"] > 0
    assert kernel["launches"] > 0
    assert "rows/ptx" in profile["listings"]


@pytest.mark.skipif(not find_toolkit().version, reason="neither NVRTC nor nvcc is here")
def test_outside_an_evaluation_it_is_an_ordinary_call() -> None:
    library = load_cuda(r"""
template <typename T> __global__ void add(const T* x, const T* y, T* z, int n, T factor) {
    extern __shared__ unsigned char room[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + factor * y[i];
}
__global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
""")
    for dtype, name in ((torch.float32, "float"), (torch.float64, "double")):
        x, y = (
            torch.randn(1000, device="cuda", dtype=dtype),
            torch.randn(1000, device="cuda", dtype=dtype),
        )
        z = torch.empty_like(x)
        library[f"add<{name}>"][(4,), 256, 100_000](x, y, z, 1000, 0.5)
        assert torch.allclose(z, x + 0.5 * y)
    x = torch.ones(8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        library.twice[1, 32](x, 8)
    torch.cuda.synchronize()
    assert x.tolist() == [2.0] * 8
