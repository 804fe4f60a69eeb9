"""The inside of a C++ kernel as a client sees it, with a real judge."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer

from kevolve_mcp.executors import Executor
from kevolve_mcp.executors.testing import OpenJudge
from kevolve_mcp.server import build_server
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from .conftest import data, text

pytestmark = [
    pytest.mark.skipif(
        not shutil.which("g++") or not shutil.which("objdump"), reason="no compiler or disassembler"
    ),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="written for AVX2"),
]
TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, w):
        return x * w


def get_inputs():
    return [torch.randn(64, 256), torch.randn(256)]


def get_init_inputs():
    return []
"""
KERNEL = '''
import torch
import torch.nn as nn
from harness.native import load_cpp

library = load_cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void cold(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        y[i] = std::exp(x[i]);
}
extern "C" void scale(const float* x, const float* w, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c)
            y[r * width + c] = x[r * width + c] * w[c];
}
""", flags=("-mavx2", "-mno-avx512f", "-mprefer-vector-width=256"))


class ModelNew(nn.Module):
    def forward(self, x, w):
        y = torch.empty_like(x)
        if x.numel() == 0:
            library.cold(x, y, x.numel())
        library.scale(x, w, y, x.shape[0], x.shape[1])
        return y
'''


class Lent:
    """The judge of all tests, which a server that ends does not close."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def close(self) -> None:
        """It stays open."""


def judged_by(judge: OpenJudge, home: Path) -> MCPServer[Any]:
    """A server on a home of its own whose judge is the one of all tests."""
    lent = cast(Executor, Lent(judge.executor))
    return build_server(
        Settings(home=home), lambda settings: Service(settings, lambda python, near: lent)
    )


async def ended(client: Client, tool: str, **arguments: object) -> tuple[dict[str, Any], str]:
    """The evaluation that a job came to, and how it reads."""
    answer = await client.call_tool(tool, arguments)
    with anyio.fail_after(120):
        while data(answer)["state"] == "running":
            answer = await client.call_tool("job_wait", {"job_id": data(answer)["job_id"]})
    return data(answer)["result"]["evaluation"], text(answer)


def test_hot_loops_are_shown_and_what_is_cold_raises_no_signal(
    tmp_path: Path, judge: OpenJudge
) -> None:
    async def journey() -> None:
        async with Client(judged_by(judge, tmp_path)) as client:
            built, told = await ended(client, "kernel_compile", task_source=TASK, source=KERNEL)
            assert built["status"] == "correct", told
            assert "- cold, line " in told
            assert "all functions that Python may call" in told

            timed, told = await ended(client, "kernel_profile", task_source=TASK, source=KERNEL)
            assert timed["status"] == "correct", told
            assert "Loops of the functions that were called, the most called first" in told
            assert "its function was called " in told
            assert "256-bit vectors (8 lanes)" in told
            assert "- cold" not in told
            assert not {"transcendental_heavy", "not_vectorized"} & {
                s["name"] for s in timed["signals"]
            }

            section = {"evaluation_id": timed["id"], "section": "assembly"}
            shown = text(await client.call_tool("tree_view", section))
            assert "y[r * width + c] = x[r * width + c] * w[c];" in shown
            assert "vmulps" in shown
            assert "cycles per iteration" in shown

    judge.run(journey())
