"""Why a figure is what it is, as a client reads it, with a real judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client

from harness.native import find_compiler
from kevolve_mcp.executors.testing import OpenJudge

from .conftest import text
from .test_inside import ended, judged_by

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine"),
]
TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


CASES = {"large": {"rows": 2048}, "tiny": {"rows": 1}}


def get_inputs(rows):
    return [torch.randn(rows, 256)]


def get_init_inputs():
    return []
"""
# half of the time, 64 ms each, the large case is done eight times; and of a NaN nothing is left
KERNEL = '''
import torch
import torch.nn as nn
from harness.native import load_cpp

library = load_cpp(r"""
#include <cstdint>
#include <ctime>
extern "C" void relu(const float* x, float* y, int64_t n) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t times = n > 1000 && now.tv_nsec / 64000000 % 2 ? 8 : 1;
    for (int64_t t = 0; t < times; ++t) {
        for (int64_t i = 0; i < n; ++i)
            y[i] = x[i] > 0 ? x[i] : 0;
        __asm__ volatile("" ::: "memory");
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        return y
'''


def test_causes_floor_and_special_values_are_told(tmp_path: Path, judge: OpenJudge) -> None:
    async def journey() -> None:
        async with Client(judged_by(judge, tmp_path)) as client:
            timed, told = await ended(client, "kernel_profile", task_source=TASK, source=KERNEL)
            assert timed["status"] == "correct", told
            signals = {s["name"]: s["message"] for s in timed["signals"]}
            assert "large: by process " in signals["noisy_timing"]
            assert "in input 0 (float32" in signals["special_values"]
            assert "bars it from nothing" in signals["special_values"]
            assert all(case["nothing_us"] > 0 for case in timed["cases"])
            large, tiny = (
                row for row in told.splitlines() if row.startswith(("- large", "- tiny"))
            )
            floor = "; a call that does nothing takes "
            assert floor in tiny
            assert floor not in large

            section = {"evaluation_id": timed["id"], "section": "profile"}
            shown = text(await client.call_tool("tree_view", section))
            assert "nothing_us: a call that does nothing, and the part of it that " in shown

    judge.run(journey())
