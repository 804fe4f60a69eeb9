"""Kernels from the Triton skills: right in Triton's interpreter, in every structure, and compiled
for GPUs that are not here."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from harness.types import EvaluationRequest
from kevolve_mcp.executors.testing import OpenJudge
from kevolve_mcp.synthesis import instantiate
from knowledge import Library

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
SKILLS = {s.id.split("/")[1]: s for s in Library.builtin().skills()}
TASK = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(300)

    def forward(self, {arguments}):
        {body}


def get_inputs():
    return [{inputs}]
"""
PLAIN = TASK.replace("        self.norm = nn.LayerNorm(300)\n", "")
NORM = TASK.format(
    arguments="x, r",
    body="return self.norm(x + r)",
    inputs="torch.randn(6, 300), torch.randn(6, 300)",
)
LOSS = PLAIN.format(
    arguments="x, t",
    body="return F.cross_entropy(x.float(), t, ignore_index=3)",
    inputs="torch.randn(9, 500).half(), torch.randint(0, 5, (9,))",
)
CHAIN = PLAIN.format(
    arguments="x, b, c",
    body=(
        "h = F.elu(x) - torch.tanh(x) + F.softplus(x) * c; return torch.where((x > 0.5) & ~(b > "
        "1), F.gelu(x) * b, h + torch.log1p(x * x)), torch.clamp(F.silu(x), -1, 2)"
    ),
    inputs="torch.randn(9, 300), torch.randn(300), torch.randn(9, 1)",
)
CHANNELS = PLAIN.format(
    arguments="x, b",
    body="return torch.relu(x * 1.5 + b).clamp(max=3.0) + F.mish(x) * torch.erf(x)",
    inputs="torch.randn(4, 8, 5, 5).half(), torch.randn(8, 1, 1).half()",
)
KERNELS = [
    ("triton_row_normalization", NORM, {}),
    ("triton_row_normalization", NORM, {"CHUNK": 1024, "STAGES": 1}),
    ("triton_row_normalization", NORM, {"ROWS": 4}),
    ("triton_softmax_cross_entropy", LOSS, {}),
    ("triton_softmax_cross_entropy", LOSS, {"FORM": "two_pass", "CHUNK": 1024}),
    ("triton_fused_pointwise", CHAIN, {}),
    ("triton_fused_pointwise", CHANNELS, {"LOOP": 2, "EVICTION": "evict_first"}),
]


@pytest.mark.parametrize(
    ("skill", "source", "params"),
    KERNELS,
    ids=lambda v: "" if isinstance(v, str) and "\n" in v else str(v),
)
def test_a_kernel_from_the_skill(
    judge: OpenJudge, skill: str, source: str, params: dict[str, int | str]
) -> None:
    run, executor = judge.run, judge.executor
    task = run(executor.open_task(source, "", "cpu", timed=False))
    made = instantiate(SKILLS[skill], task, "cuda", "triton")
    assert made.found, made.reason
    start = made.found[0].candidate
    assert params.keys() <= start.params().keys()
    start = start.with_params(start.params() | params)
    found = run(executor.evaluate(task, EvaluationRequest(start, "check", "verify"), "cpu"))
    assert found.status == "correct", found.message
    for target in ("cuda:sm_90", "hip:gfx942") if not params else ():
        built = run(executor.evaluate(task, EvaluationRequest(start, "check", "build"), target))
        assert built.status == "correct", built.message
