"""Ceilings that were measured in a busier moment accuse nobody."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from harness.native import find_compiler
from harness.types import Candidate, EvaluationRequest
from kevolve_mcp.executors.local import LocalExecutor

TASK = """
import torch


def reference(x):
    return x * 2 + 1


def get_inputs():
    return [torch.randn(1 << 20)]
"""
KERNEL = """
import torch
from harness.native import load_cpp

library = load_cpp(r'''
#include <cstdint>
extern "C" void twice(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * 2 + 1;
}
''')


def kernel(x):
    y = torch.empty_like(x)
    library.twice(x, y, x.numel())
    return y
"""
SLOWER = 50.0  # than the machine is


@pytest.mark.quiet
def test_ceilings_are_measured_again_before_a_kernel_is_accused(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    with asyncio.Runner() as runner:
        executor = LocalExecutor(None, tmp_path)
        runner.run(executor.describe(ceilings=True))
        runner.run(executor.close())
        (file,) = tmp_path.rglob("ceilings-*.json")
        measured = json.loads(file.read_text())
        for rates in (measured["bandwidth"], measured["write_bandwidth"]):
            rates |= {level: rate / SLOWER for level, rate in rates.items()}
        file.write_text(json.dumps(measured))
        executor = LocalExecutor(None, tmp_path)
        task = runner.run(executor.open_task(TASK, "", "cpu"))
        request = EvaluationRequest(Candidate(KERNEL, "cpp"), "search", "time")
        found = runner.run(executor.evaluate(task, request, "cpu"))
        runner.run(executor.close())
    assert (found.status, found.message.partition(";")[0]) == ("correct", "right in its only case")
    assert "suspect.implausible_speed" not in [signal.name for signal in found.signals]
    now = json.loads(file.read_text())["bandwidth"]["memory"]
    assert now > 2 * measured["bandwidth"]["memory"]
