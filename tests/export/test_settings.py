"""Packages in programs with other settings of torch than the kernel was measured with, and what
packages leave unchanged there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import export_package

from .conftest import Run
from .samples import sample, spec
from .test_backward_passes import INIT
from .test_not_measured import CASES, CHECK, CHECKED, HEAD, NATIVE

TASK = f"""{HEAD}
import numpy
{CASES}{INIT}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        numpy.random.rand()

    def forward(self, x):
        return torch.zeros(1) + x + x
"""
KERNEL = f"""{NATIVE}
_lib = load_cpp(r'''
#include <cstdint>
extern "C" void go(const float* x, float* kept, float* y, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) y[i] = kept[i] + x[i];
}}
''')
CALLS = []

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        CALLS.append(1)
        if self.kept is None or self.kept.shape != x.shape:
            self.kept = torch.empty(x.shape)
        self.kept.copy_(x)
        y = torch.empty(x.shape)
        _lib.go(x, self.kept, y, x.numel())
        return y
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("settings")
    case = Case("small", arguments={"rows": 8}, inputs=(spec("float32", 8, 64),))
    one = sample("doubles", TASK, KERNEL, (case,), {"small": "faster"})
    export_package(
        home / one.task.name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
    )
    return home


def test_calls_under_other_settings(home: Path, run_python: Run) -> None:
    script = """
def inference_mode_first(m):
    with torch.inference_mode():
        m(x)
    with torch.no_grad():
        return m(x)

def no_grad_first(m):
    with torch.no_grad():
        m(x)
    with torch.inference_mode():
        return m(torch.ones(8, 64)) * x

def inference_input(m):
    with torch.inference_mode():
        kept = x * 1
        m(kept)
    return m(kept)

def other_dtype(m):
    m(x)  # like calls before
    torch.set_default_dtype(torch.float64)
    try:
        return m(x)
    finally:
        torch.set_default_dtype(torch.float32)

def on_another_device(m):
    m(x)
    with torch.device("meta"):
        return m(x)

def default_device(m):
    torch.set_default_device("cpu")
    try:
        return m(x)
    finally:
        torch.set_default_device(None)

def rows_of_zeros(m):
    m(x)
    return m(torch.eye(8, 64).to_sparse_csr()).to_dense()

def nested(m):
    m(x)
    kept = m(torch.nested.nested_tensor([torch.ones(64)] * 8))
    return torch.stack(list(kept.unbind())) if kept.is_nested else kept

def outcome(way, module):
    try:
        return way(module)
    except RuntimeError as error:
        return str(error)

for way, kernel in (
    (inference_mode_first, 2), (no_grad_first, 2), (inference_input, 2), (other_dtype, 1),
    (on_another_device, 1), (default_device, 0), (rows_of_zeros, 1), (nested, 1),
):
    package, model, reference = made("doubles")
    used, x = sys.modules["doubles.kernel"].CALLS, torch.randn(8, 64)
    quiet = kernel == 2 or way in (rows_of_zeros, nested)  # as for any inputs of another kind
    says = "" if quiet else "a default dtype or device is set"
    with told(way.__name__, says):
        used.clear()
        ours = outcome(way, model)
    check(f"{way.__name__}: {len(used)} calls of the kernel", len(used) == kernel)
    theirs = outcome(way, reference)
    same = ours == theirs if isinstance(theirs, str) else not isinstance(ours, str)
    check(f"{way.__name__}: {ours} {theirs}", same)
    if same and not isinstance(theirs, str) and not theirs.is_meta:
        check(way.__name__, ours.dtype == theirs.dtype and like(ours, theirs))

torch.set_default_dtype(torch.float64)
package, model, reference = made("doubles")
torch.set_default_dtype(torch.float32)
used.clear()
with told("constructed so", "another default dtype"):
    check("constructed so", like(model(x), reference(x)) and not used)
"""
    run_python(home, CHECK + script + CHECKED)


def test_random_numbers_of_the_program(home: Path, run_python: Run) -> None:
    script = """
import random, numpy
package = importlib.import_module("doubles")

def numbers(make):
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    make()
    return random.random(), numpy.random.rand(), torch.rand(1).item()

for _ in range(2):
    ours, theirs = numbers(package.KernelModule), numbers(package.modules.Reference)
    check(f"{ours} {theirs}", ours == theirs)
"""
    run_python(home, CHECK + script + CHECKED)
