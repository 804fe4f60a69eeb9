"""Ceilings that were measured in a busier moment, or that a format of fewer bits exceeds, accuse
nobody."""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from harness.judge.device import roofline
from harness.judge.process_environment import python_command
from harness.native import find_compiler
from harness.targets import cpu, cuda
from harness.targets.base import DeviceFamily
from harness.types import Candidate, Case, Ceilings, EvaluationRequest, TensorSpec
from kevolve_mcp.executors.local import LocalExecutor
from kevolve_mcp.sessions.outline import MEANINGS

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
        for kind in ("bandwidth", "write_bandwidth"):
            for rates in (measured[kind], measured[f"streamed_{kind}"]):
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
    (timed,) = (stage for stage in found.stages if stage.stage == "time")
    assert set(timed.data) == set(MEANINGS["time"])


@pytest.mark.quiet
def test_a_matrix_product_does_not_exceed_the_arithmetic_ceiling(tmp_path: Path) -> None:
    """With vectors wider than the processor's the ceiling came to a fourteenth of this."""
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    ceilings = cpu.ceilings(tmp_path, python_command("harness.targets", "cpu.measure"))
    product = (
        "import time, torch; torch.set_num_threads(1); a = torch.randn(768, 768); best = 1e9\n"
        "for _ in range(20):\n"
        "    began = time.perf_counter(); a @ a; best = min(best, time.perf_counter() - began)\n"
        "print(2 * 768**3 / best)"
    )
    done = subprocess.run(
        [sys.executable, "-c", product], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1.3 * ceilings.operations["float32"]


@pytest.mark.quiet
def test_streamed_stores_are_measured_where_a_processor_has_them(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    found = cpu.ceilings(tmp_path, python_command("harness.targets", "cpu.measure"))
    levels = {"memory"} if platform.machine() == "x86_64" else set()
    assert set(found.streamed_bandwidth) == set(found.streamed_write_bandwidth) == levels
    for rates, streamed in (
        (found.bandwidth, found.streamed_bandwidth),
        (found.write_bandwidth, found.streamed_write_bandwidth),
    ):
        # a nearer level is not the slower one, whatever stores there are behind it
        nearer = min(rate for level, rate in rates.items() if level != "memory")
        assert nearer >= max(rates["memory"], streamed.get("memory", 0.0)) > 0


@pytest.mark.parametrize("family", [cpu, cuda])
def test_products_of_narrow_integers_are_not_implausible(family: DeviceFamily) -> None:
    vector = TensorSpec((4096,), "float32", (1,), 16384)
    case = Case("tall", inputs=(vector,), outputs=(vector,), operations=1e9)
    ceilings = Ceilings(
        bandwidth={"memory": 1e13},
        write_bandwidth={"memory": 1e13},
        operations={"float32": 1e11, "float64": 5e10},
        level_bytes={"memory": 1 << 62},
        launch_us=0.2,
    )
    least_us = roofline.roofline_time_us(case, ceilings, 1 << 26)
    plausible_us = roofline.plausible_us(case, ceilings, 1 << 26, family.NARROW_FACTOR)
    assert least_us == pytest.approx(1e6 * case.operations / 1e11)
    # eight bits at four times the rate, as with VNNI
    assert plausible_us <= least_us / 4
