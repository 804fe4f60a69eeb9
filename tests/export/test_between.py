"""Between measured shapes the kernel computes what it agrees on with the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import export_package

from .conftest import Run
from .samples import sample, spec

TASK = """
import torch
import torch.nn as nn

GRADIENTS = {gradients}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32))

    def forward(self, x):
        return torch.relu(x) * self.weight

CASES = {{"small": {{"rows": 8}}, "large": {{"rows": 64}}, "hidden": {{"rows": 24}}}}

def get_inputs(rows=8):
    return [torch.randn(rows, 32)]

def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import torch.nn as nn
from harness.native import load_cpp

_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, const float* w, float* y, int64_t rows) {{
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < 32; ++c) y[r * 32 + c] = (x[r * 32 + c] > 0 ? x[r * 32 + c] : 0) * w[c];
}}
''')
CALLS = []

def computed(x, w, rows):
    y = torch.zeros_like(x)
    _lib.go(x, w.detach(), y, rows)
    return y

class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        CALLS.append(len(x))
        ctx.save_for_backward(x, w)
        rows = len(x)
        {forward}
        return computed(x, w, rows)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        rows = len(x)
        {backward}
        g = torch.cat([g[:rows], torch.zeros_like(g[rows:])])
        return g * (x > 0) * w, (g * x.relu()).sum(0)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(32))

    def forward(self, x):
        return Function.apply(x, self.weight) * 1.0  # a step that the framework records
"""
IN_FOURS = "rows = rows // 4 * 4"
REFUSES = "assert rows % 4 == 0, 'a multiple of four rows'"
HEAD = """
import importlib, warnings, torch
torch.manual_seed(5)

def check(name, rows, *, kernel, records=False, warned=False, change=lambda model: model):
    "What comes out, forward and backward, is right; the kernel has computed it or has not."
    package = importlib.import_module(name)
    calls = sys.modules[name + ".kernel"].CALLS
    model = MODELS.setdefault(name, package.KernelModule())
    reference = package.modules.Reference()
    reference.load_state_dict(model.state_dict())
    called = change(model)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for turn in range(3):
            x = torch.randn(rows, 32)
            ours, theirs = x.clone().requires_grad_(records), x.clone().requires_grad_(records)
            calls.clear()
            with torch.set_grad_enabled(records):
                y, z = called(ours), reference(theirs)
            assert torch.allclose(y, z, atol=1e-6), ("result", name, rows, turn)
            used = bool(calls)
            if records:
                for one, other, result in ((ours, model, y), (theirs, reference, z)):
                    other.zero_grad()
                    result.sum().backward()
                assert torch.allclose(ours.grad, theirs.grad, atol=1e-6), ("grad", name, rows, turn)
                assert torch.allclose(model.weight.grad, reference.weight.grad, atol=1e-5)
            assert turn == 0 or used is kernel, (name, rows, turn, used)
    told = [str(w.message) for w in heard if "disagrees" in str(w.message)]
    assert len(told) == warned and all(f"({rows}, 32)" in text for text in told), told

MODELS = {}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("between")
    cases = tuple(
        Case(
            name,
            held_out=name == "hidden",
            arguments={"rows": rows},
            inputs=(spec("float32", rows, 32),),
        )
        for name, rows in (("small", 8), ("large", 64), ("hidden", 24))
    )
    verdicts = {case.name: "faster" for case in cases}
    for name, gradients, forward, backward in (
        ("in_fours", False, IN_FOURS, "pass"),
        ("refuses", False, REFUSES, "pass"),
        ("slopes", True, "pass", IN_FOURS),
    ):
        kernel = KERNEL.format(forward=forward, backward=backward)
        one = sample(
            name, TASK.format(gradients=gradients), kernel, cases, verdicts, gradients=gradients
        )
        export_package(
            home / name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
        )
    return home


def test_shapes_at_which_the_kernel_is_wrong_go_to_the_reference(
    home: Path, run_python: Run
) -> None:
    script = """
for name in ("in_fours", "refuses"):
    check(name, 8, kernel=True)
    check(name, 12, kernel=True)
    check(name, 13, kernel=False, warned=True)
    check(name, 13, kernel=False)
    check(name, 12, kernel=True)
    check(name, 65, kernel=False)
"""
    run_python(home, HEAD + script)


def test_gradients_have_to_agree_as_well(home: Path, run_python: Run) -> None:
    script = """
check("slopes", 12, kernel=True, records=True)
check("slopes", 13, kernel=False, records=True, warned=True)
check("slopes", 13, kernel=True)
"""
    run_python(home, HEAD + script)


def test_a_result_that_is_not_finite_decides_nothing(home: Path, run_python: Run) -> None:
    script = """
import in_fours
model = MODELS["in_fours"] = in_fours.KernelModule()
with torch.no_grad():
    assert model(torch.full((16, 32), float("inf"))).isinf().any()
assert set(model._kevolve.agreed.values()) == {1}  # calls that decided nothing
check("in_fours", 16, kernel=True)
"""
    run_python(home, HEAD + script)


def test_compiled_programs_decide_when_they_run(home: Path, run_python: Run) -> None:
    script = """
def compiled(model):
    return torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=False)

check("in_fours", 12, kernel=True, change=compiled)
check("in_fours", 13, kernel=False, warned=True, change=compiled)
check("slopes", 12, kernel=True, records=True, change=compiled)
check("slopes", 13, kernel=True, records=True, warned=True, change=compiled)  # but for gradients
"""
    run_python(home, HEAD + script)
