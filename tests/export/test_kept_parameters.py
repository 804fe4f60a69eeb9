"""Kernels that keep what they made of their parameters, for each version of them. In a program some
calls record gradients and some do not, and each that does has to reach the parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Case
from kevolve_mcp.export import export_package

from .conftest import Run
from .samples import sample, spec
from .test_backward_passes import INIT
from .test_not_measured import CASES, CHECK, CHECKED, HEAD

TASK = f"""{HEAD}{CASES}{INIT}
GRADIENTS = True

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return torch.sin(x) * (1 + self.weight)
"""
KERNEL = f"""{HEAD}
CALLS = []

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64))
        self.seen = None

    def forward(self, x):
        CALLS.append(1)
        seen = self.weight.data_ptr(), self.weight._version
        if seen != self.seen:
            self.seen, self.factor = seen, 1 + self.weight
        return torch.sin(x) * self.factor
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("kept_parameters")
    case = Case("small", arguments={"rows": 8}, inputs=(spec("float32", 8, 64),))
    one = sample("keeps", TASK, KERNEL, (case,), {"small": "faster"}, gradients=True)
    export_package(
        home / one.task.name, task=one.task, candidate=one.candidate, evaluation=one.evaluation
    )
    return home


def test_each_recorded_call_reaches_the_parameters(home: Path, run_python: Run) -> None:
    script = """
from torch.utils.checkpoint import checkpoint

def step(m, x, call=None):
    x = x.clone().requires_grad_()
    (m if call is None else call)(x).square().sum().backward()
    return x.grad

def unrecorded_before(m, x):
    with torch.no_grad():
        m(x)
    return step(m, x)

def unrecorded_between(m, x):
    return step(m, x) + unrecorded_before(m, x)

def frozen_before(m, x):
    m.weight.requires_grad_(False)
    before = step(m, x)
    m.weight.requires_grad_()
    return before + step(m, x)

def data_before(m, x):
    for _ in range(2):  # the first one is compared with the reference
        m(x).square().sum().backward()
    return step(m, x)

def checkpointed(m, x):
    return step(m, x, lambda x: checkpoint(m, x, use_reentrant=True))

def compiled(m, x):
    call = torch.compile(m, backend="aot_eager")
    return step(m, x, call) + unrecorded_before(m, x) + step(m, x, call) + step(m, x)

def other_names(m, x):
    if m is reference:
        return sum(step(m, x) for _ in range(5))
    total, names = 0, [m.weight.detach().requires_grad_() for _ in range(2)]
    for number in (0, 0, 0, 1, 1):
        state = {"weight": names[number]}
        total = total + step(m, x, lambda x: package.functional(x, state=state))
    m.weight.grad = names[0].grad + names[1].grad
    return total

ways = (unrecorded_before, unrecorded_between, frozen_before, data_before, checkpointed, compiled,
        other_names)
for way in ways:
    package, model, reference = made("keeps")
    used = sys.modules["keeps.kernel"].CALLS
    used.clear()
    x = torch.randn(8, 64)
    ours, theirs = way(model, x), way(reference, x)
    check(f"{way.__name__}: kernel", used)
    check(f"{way.__name__}: input", like(ours, theirs, 1e-4))
    grads = model.weight.grad, reference.weight.grad
    check(f"{way.__name__}: weight", grads[0] is not None and like(*grads, 1e-4))
"""
    run_python(home, CHECK + script + CHECKED)
