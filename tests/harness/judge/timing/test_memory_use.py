"""What a candidate holds is seen from outside, reported, and bounded by the policy."""

from __future__ import annotations

import pytest

from harness.judge.timing.memory_use import beyond_baseline, over_limit
from harness.types import Candidate, CaseResult, Evaluation, EvaluationRequest, Policy, Task
from tests.harness.conftest import Bench

MIB = 1 << 20
TASK = """
import torch


def reference(x):
    return torch.sin(x)


def get_inputs():
    return [torch.randn(64, 128)]
"""
HONEST = "import torch\n\n\ndef kernel(x):\n    return torch.sin(x)\n"
HOARDS = (
    "import torch\n\nkept = torch.ones(150, 1 << 20)\n\n\ndef kernel(x):\n    return torch.sin(x)\n"
)
# memory that it could share is memory
HIDES = """
import mmap

import torch

kept = mmap.mmap(-1, 600 << 20)
for place in range(0, 600 << 20, 4096):
    kept[place] = 1


def kernel(x):
    return torch.sin(x)
"""
# within a call alone
PASSING = """
import torch


def kernel(x):
    b"x" * (120 << 20)
    return torch.sin(x)
"""


@pytest.fixture(scope="module")
def task(bench: Bench) -> Task:
    return bench.run(bench.executor.open_task(TASK, "", "cpu", timed=True))


def timed(bench: Bench, task: Task, text: str, memory_gib: float | None = None) -> Evaluation:
    policy = Policy(library_calls="allow", memory_gib=memory_gib)
    request = EvaluationRequest(Candidate(text, "cpp"), "search", "time", policy)
    return bench.run(bench.executor.evaluate(task, request, "cpu"))


def test_an_honest_candidate_holds_little_and_is_not_accused(bench: Bench, task: Task) -> None:
    found = timed(bench, task, HONEST, memory_gib=0.4)
    assert found.status == "correct", found.message
    (case,) = found.cases
    assert case.host_peak_bytes is not None
    assert case.baseline_host_peak_bytes is not None
    assert case.host_peak_bytes < 100 * MIB
    assert case.device_peak_bytes is case.baseline_device_peak_bytes is None
    assert "memory.beyond_baseline" not in [s.name for s in found.signals]


@pytest.mark.parametrize("text", [HOARDS, HIDES])
def test_what_a_candidate_holds_is_told(bench: Bench, task: Task, text: str) -> None:
    found = timed(bench, task, text)
    assert found.status == "correct", found.message
    (case,) = found.cases
    assert 500 * MIB <= (case.host_peak_bytes or 0) < 900 * MIB
    (signal,) = [s for s in found.signals if s.name == "memory.beyond_baseline"]
    assert "of host memory where" in signal.message
    assert signal.evidence["host_peak_bytes"] == case.host_peak_bytes


def test_what_a_call_holds_meanwhile_counts(bench: Bench, task: Task) -> None:
    found = timed(bench, task, PASSING)
    assert found.status == "correct", found.message
    assert 80 * MIB <= (found.cases[0].host_peak_bytes or 0) < 300 * MIB


def test_a_policy_limits_what_a_candidate_holds(bench: Bench, task: Task) -> None:
    found = timed(bench, task, HOARDS, memory_gib=0.5)
    assert found.status == "invalid"
    assert "more than the 0.5 GiB that are allowed" in found.message
    assert found.signals[0].name == "memory.over_limit"
    assert found.fitness == 0
    assert (found.cases[0].host_peak_bytes or 0) > 500 * MIB


def test_memory_of_a_device_is_bounded_alike() -> None:
    result = CaseResult(
        "only", host_peak_bytes=MIB, baseline_host_peak_bytes=MIB, baseline="eager",
        device_peak_bytes=3 << 30, baseline_device_peak_bytes=1 << 30,
    )  # fmt: skip
    (signal,) = beyond_baseline(result)
    assert "3.00 GiB of device memory where eager holds 1.00 GiB" in signal.message
    failure = over_limit(result, Policy(memory_gib=2))
    assert failure is not None
    assert failure.status == "invalid"
    assert over_limit(result, Policy(memory_gib=4)) is None
    assert over_limit(result, Policy()) is None


def test_a_key_names_the_limit_only_where_there_is_one() -> None:
    assert "memory" not in str(Policy())
    assert str(Policy(memory_gib=1.5)).endswith(",memory_gib=1.5")
