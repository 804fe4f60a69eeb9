"""Calls of packages that look like those that were measured and are not: each agrees with the
reference, by whichever way it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import export_package

from .conftest import Run
from .samples import sample, spec

HEAD = "import torch\nimport torch.nn as nn\n"
NATIVE = f"{HEAD}from harness.native import load_cpp\n"
ROWS = (Case("default", inputs=(spec("float32", 16, 64),)),)
BY_MODE = (
    f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("running_mean", torch.randn(width))

    def forward(self, x):
        mean = x.mean(0) if self.training else self.running_mean
        return torch.relu(x - mean) * self.weight

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return [64]
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, const float* m, const float* w, float* y, int64_t rows, int64_t cols) {{
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {{ float v = x[r * cols + c] - m[c]; y[r * cols + c] = (v > 0 ? v : 0) * w[c]; }}
}}
''')

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))

    def forward(self, x):
        CALLS.append(1)
        y = torch.empty_like(x)
        _lib.go(x, x.mean(0), self.weight, y, x.shape[0], x.shape[1])
        return y

CALLS = []
""",  # noqa: E501
)
SCALED = """
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, const float* w, float* y, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * w[c];
}
''')
CALLS = []
"""
TABLE = (
    f"""{HEAD}
class Model(nn.Module):
    def __init__(self, table, act=torch.relu):
        super().__init__()
        self.table, self.act = table, act

    def forward(self, x):
        return self.act(x * self.table)

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return [torch.randn(64)]
""",
    f"""{NATIVE}{SCALED}
class ModelNew(nn.Module):
    def __init__(self, table, act=torch.relu):
        super().__init__()
        self.table = table

    def forward(self, x):
        CALLS.append(1)
        y = torch.empty_like(x)
        _lib.go(x, self.table, y, x.shape[0], x.shape[1])
        return y.relu_()
""",
)
KEPT = (
    f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x * torch.tanh(self.weight)

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return [64]
""",
    f"""{NATIVE}{SCALED}
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.seen = self.packed = None

    def forward(self, x):
        CALLS.append(1)
        if self.seen != (self.weight.data_ptr(), self.weight._version):
            self.seen = self.weight.data_ptr(), self.weight._version
            self.packed = torch.tanh(self.weight).detach()
        y = torch.empty_like(x)
        _lib.go(x, self.packed, y, x.shape[0], x.shape[1])
        return y
""",
)
SIGNED = (
    f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, sign):
        return torch.copysign(torch.relu(x) + 1.0, torch.tensor(sign)) * x

def get_inputs():
    return [torch.randn(16, 64), 0.0]

def get_init_inputs():
    return []
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, float* y, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] > 0 ? x[i] : 0) + 1.0f) * x[i];
}}
''')

class ModelNew(nn.Module):
    def forward(self, x, sign):
        CALLS.append(1)
        y = torch.empty_like(x)
        _lib.go(x, y, x.numel())
        return y

CALLS = []
""",
)
SQUARES = (
    f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return x * x

def get_inputs():
    return [torch.randn(16, 64, dtype=torch.complex64)]

def get_init_inputs():
    return []
""",
    f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, float* y, int64_t n) {{
  for (int64_t i = 0; i < 2 * n; i += 2) {{
    y[i] = x[i] * x[i] - x[i + 1] * x[i + 1];
    y[i + 1] = 2 * x[i] * x[i + 1];
  }}
}}
''', signatures={{"go": "ppl"}})

class ModelNew(nn.Module):
    def forward(self, x):
        CALLS.append(1)
        y = torch.empty_like(x)
        _lib.go(x.data_ptr(), y.data_ptr(), x.numel())
        return y

CALLS = []
""",
)
CHECK = """
import copy, torch
torch.manual_seed(1)
x = torch.randn(16, 64)

def close(a, b):
    assert torch.allclose(a, b, atol=1e-5), (a - b).abs().max()

def by_kernel(package, call, expected):
    calls = sys.modules[f"{package.__name__}.kernel"].CALLS
    calls.clear()
    for _ in range(2):  # the second goes the short way
        close(call(), expected)
    return len(calls) == 2
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("routes")
    complex_rows = (Case("default", inputs=(spec("complex64", 16, 64),)),)
    for name, (task, kernel), cases in (
        ("by_mode", BY_MODE, ROWS),
        ("table", TABLE, ROWS),
        ("kept", KEPT, ROWS),
        ("signed", SIGNED, ROWS),
        ("squares", SQUARES, complex_rows),
    ):
        one = sample(name, task, kernel, cases, {"default": "faster"})
        export_package(
            home / name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
        )
    return home


def test_the_other_mode_goes_to_a_reference_that_asks_for_it(home: Path, run_python: Run) -> None:
    script = """
import by_mode, kept
with torch.no_grad():
    model, reference = by_mode.KernelModule(64), by_mode.modules.Reference(64)
    reference.load_state_dict(model.state_dict())
    assert by_kernel(by_mode, lambda: model(x), reference(x))
    model.eval(), reference.eval()
    assert not by_kernel(by_mode, lambda: model(x), reference(x))
    model.train(), reference.train()
    assert by_kernel(by_mode, lambda: model(x), reference(x))
    model = kept.KernelModule(64).eval()  # whose reference does the same in either mode
    assert by_kernel(kept, lambda: model(x), x * torch.tanh(model.weight))
"""
    run_python(home, CHECK + script)


def test_modules_share_no_kernel_and_no_arguments(home: Path, run_python: Run) -> None:
    script = """
import table
with torch.no_grad():
    tables = [torch.randn(64), torch.randn(64)]
    made = [table.KernelModule(each) for each in tables]
    for model, each in zip(made, tables):
        assert by_kernel(table, lambda: model(x), torch.relu(x * each))
        assert by_kernel(table, lambda: copy.deepcopy(model)(x), torch.relu(x * each))
        assert by_kernel(table, lambda: table.functional(x, init=(each,)), torch.relu(x * each))
    other = table.KernelModule(tables[0], torch.tanh)
    assert not by_kernel(table, lambda: other(x), torch.tanh(x * tables[0]))
    odd = table.KernelModule(tables[0], lambda t: t + 1)
    assert not by_kernel(table, lambda: odd(x), x * tables[0] + 1)
    long = [torch.zeros(2000), torch.zeros(2000)]
    long[1][1000] = 1.0  # printed alike
    wide = torch.ones(16, 2000)
    for each in long:
        close(table.functional(wide, init=(each,)), wide * each)
"""
    run_python(home, CHECK + script)


def test_what_a_kernel_keeps_of_its_parameters_is_told_apart(home: Path, run_python: Run) -> None:
    script = """
import gc, weakref, kept
with torch.no_grad():
    for _ in range(20):
        model = kept.KernelModule(64)
        close(model(x), x * torch.tanh(model.weight))
    unaligned = torch.nn.Parameter(torch.randn(80)[4:68])
    model.weight = unaligned
    for _ in range(20):
        model.weight.add_(torch.randn(64))
        close(model(x), x * torch.tanh(unaligned))
    for _ in range(20):
        weight = torch.randn(64)
        close(kept.functional(x, init=(64,), state={"weight": weight}), x * torch.tanh(weight))
held = weakref.ref(model._kevolve.instance)
del model
gc.collect()
assert held() is None
"""
    run_python(home, CHECK + script)


def test_values_that_are_equal_and_not_the_same(home: Path, run_python: Run) -> None:
    script = """
import signed, squares
with torch.no_grad():
    model, reference = signed.KernelModule(), signed.modules.Reference()
    assert by_kernel(signed, lambda: model(x, 0.0), reference(x, 0.0))
    assert not by_kernel(signed, lambda: model(x, -0.0), reference(x, -0.0))
    model, z = squares.KernelModule(), torch.randn(16, 64, dtype=torch.complex64)
    assert by_kernel(squares, lambda: model(z), z * z)
    turned = z.conj()
    assert turned.is_conj()
    assert by_kernel(squares, lambda: model(turned), turned * turned)
"""
    run_python(home, CHECK + script)
