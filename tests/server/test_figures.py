"""Why a figure is what it is, as a client reads it, with a real judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from mcp import Client

from harness.native import find_compiler
from harness.targets import cpu
from harness.types import Ceilings, to_json
from kevolve_mcp.executors.local import LocalExecutor
from kevolve_mcp.executors.testing import OpenJudge
from kevolve_mcp.server import build_server
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

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

PLAIN = KERNEL.replace("now.tv_nsec / 64000000 % 2 ? 8 : 1", "false ? 8 : 1")
# of a machine whose last cache holds less than the outputs of the large case
CEILINGS = Ceilings(
    {"L3": 400e9, "memory": 100e9},
    {"L3": 400e9, "memory": 100e9},
    {"float32": 1e12},
    {"L3": 1 << 16, "memory": 1 << 62},
    0.2,
    streamed_bandwidth={"memory": 160e9},
    streamed_write_bandwidth={"memory": 160e9},
)


def test_causes_floor_and_special_values_are_told(tmp_path: Path, judge: OpenJudge) -> None:
    async def journey() -> None:
        async with Client(judged_by(judge, tmp_path)) as client:
            timed, told = await ended(client, "kernel_profile", task_source=TASK, source=KERNEL)
            assert timed["status"] == "correct", told
            signals = {s["name"]: s["message"] for s in timed["signals"]}
            assert "large: by process " in signals["noisy_timing"]
            assert "in input 0 (float32" in signals["special_values"]
            assert "no candidate fails because of" in signals["special_values"]
            assert all(case["nothing_us"] > 0 for case in timed["cases"])
            large, tiny = (
                row for row in told.splitlines() if row.startswith(("- large", "- tiny"))
            )
            floor = "; an empty call takes "
            assert floor in tiny
            assert floor not in large

            section = {"evaluation_id": timed["id"], "section": "profile"}
            shown = text(await client.call_tool("tree_view", section))
            assert "nothing_us: an empty call, and the part of it spent " in shown

    judge.run(journey())


@pytest.mark.anyio
async def test_outputs_beyond_the_caches_are_held_against_streamed_stores(tmp_path: Path) -> None:
    measured = json.dumps(to_json(CEILINGS))
    cpu.ceilings(tmp_path / "cache", [sys.executable, "-c", f"print({measured!r})"])
    executor = LocalExecutor(None, tmp_path / "cache")
    server = build_server(
        Settings(home=tmp_path / "home"),
        lambda settings: Service(settings, lambda python, near: executor),
    )
    async with Client(server) as client:
        task = TASK.replace(', "tiny": {"rows": 1}', "")  # two megabytes in and out
        timed, told = await ended(client, "kernel_profile", task_source=task, source=PLAIN)
        assert timed["status"] == "correct", told
        assert "(160.0 GB/s with inputs in memory, outputs in memory, streamed stores)" in told
        described = text(await client.call_tool("target_describe", {}))
    assert "memory 100.0 GB/s, 160.0 GB/s with streamed stores" in described
