"""What calls of the reference leave, after each of several numbers of them, and from which values
they begin."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.judge.device.machine import Machine
from harness.judge.exchange.case_pool import CasePool
from harness.judge.tasks.drawer import Drawer
from harness.judge.tasks.opening import open_task

SUMS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        with torch.no_grad():
            self.total.mul_(0.5).add_(x.mean(0))
            self.calls.add_(1)
        return x * 2


def get_inputs():
    return [torch.randn(64, 4)]


def get_init_inputs():
    return []
"""


# the result depends on the lines that no call writes
CACHE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.randn(8, 4))

    def forward(self, x):
        with torch.no_grad():
            self.kept[3] = x.mean(0)
        return x @ self.kept.t()


def get_inputs():
    return [torch.randn(64, 4)]


def get_init_inputs():
    return []
"""


@contextlib.contextmanager
def opening(judge_cache: Path, path: Path, text: str) -> Iterator[tuple[Drawer, CasePool]]:
    path.write_text(text)
    machine = Machine(judge_cache)
    try:
        task, _ = open_task(machine, text, str(path), lambda *_: None, None, timed=False)
        try:
            pool = task.drawer.describe("default")
            task.drawer.draw_checking(pool)
            try:
                yield task.drawer, pool
            finally:
                pool.close()
        finally:
            task.close()
    finally:
        machine.close()


@pytest.fixture(scope="module")
def sums(
    judge_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Drawer, CasePool]]:
    path = tmp_path_factory.mktemp("task") / "sums.py"
    with opening(judge_cache, path, SUMS) as found:
        yield found


@pytest.fixture
def opened(sums: tuple[Drawer, CasePool]) -> Drawer:
    return sums[0]


@pytest.fixture
def pool(sums: tuple[Drawer, CasePool]) -> CasePool:
    return sums[1]


def test_values_after_each_of_several_numbers_of_calls(opened: Drawer, pool: CasePool) -> None:
    sets = [input_set for state, input_set in pool.checking if state == 0][:2] * 2
    first, third = opened.updates.after_each(pool, 0, sets, [1, 3])
    alone = opened.updates.after(pool, 0, sets[:1])
    for name, value in first.items():
        assert torch.equal(value.expected, alone[name].expected)
    before = int(opened.initial_state(pool)["calls"])
    assert [int(each["calls"].expected) - before for each in (first, third)] == [1, 3]
    assert not torch.equal(first["total"].expected, third["total"].expected)


def test_calls_begin_with_what_the_judge_wrote(opened: Drawer, pool: CasePool) -> None:
    sets = [input_set for state, input_set in pool.checking if state == 0][:1]
    renewed = {"total": torch.full((4,), 8.0), "calls": torch.tensor(40)}
    usual, before = opened.updates.after(pool, 0, sets), opened.initial_state(pool)["total"]
    (found,) = opened.updates.after_each(pool, 0, sets, [1], renewed)
    assert int(found["calls"].expected) == 41
    changed = found["total"].expected.double() - usual["total"].expected.double()
    assert torch.allclose(changed, 0.5 * (8.0 - before.double()), atol=1e-5)
    # the state is as before for whoever asks next
    again = opened.updates.after(pool, 0, sets)
    assert torch.equal(again["total"].expected, usual["total"].expected)


def test_other_values_are_drawn_where_the_results_do_not_depend_on_them(
    opened: Drawer, pool: CasePool
) -> None:
    initial = opened.initial_state(pool)
    one, other = (opened.updates.other_values(pool, 0, initial) for _ in range(2))
    assert pool.takes_other_values
    assert list(one) == pool.updated
    assert not torch.equal(one["total"], other["total"])
    assert torch.equal(one["calls"], initial["calls"])  # a counter


def test_values_are_left_by_calls_where_results_depend_on_them(
    judge_cache: Path, tmp_path: Path
) -> None:
    with opening(judge_cache, tmp_path / "cache.py", CACHE) as (drawer, pool):
        initial = drawer.initial_state(pool)["kept"]
        other = drawer.updates.other_values(pool, 0, {"kept": initial})["kept"]
        assert pool.takes_other_values is False
        changed = (other != initial).any(-1)
        assert changed.tolist() == [False] * 3 + [True] + [False] * 4


MODES = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = nn.Dropout().eval()

    def forward(self, x):
        assert not self.frozen.training
        return {result}


def get_inputs():
    return [torch.randn(8, 4)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("result", "ignores"),
    [
        ("torch.tanh(self.frozen(x))", True),
        ("x.tanh() if self.training else x.sin()", False),
        ("(x.tanh(), x.sin()) if self.training else x.tanh()", False),
        ("x.tanh()[:, :1] if self.training else x.tanh()", False),
    ],
)
def test_whether_results_are_the_same_in_evaluation_mode(
    judge_cache: Path, tmp_path: Path, result: str, ignores: bool
) -> None:
    text = MODES.format(result=result)
    with opening(judge_cache, tmp_path / "modes.py", text) as (drawer, pool):
        assert drawer.updates.ignores_modes(pool) is ignores
        again = drawer.draw_example(pool, "dense")  # its parts have the modes that they had
        assert len(again.expected) == len(pool.outputs["leaves"])


TRAINS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("latest", torch.randn(8, 4))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.latest.copy_(x)
        return x * 2


def get_inputs():
    return [torch.randn(8, 4)]


def get_init_inputs():
    return []
"""


def test_what_calls_leave_in_evaluation_mode(judge_cache: Path, tmp_path: Path) -> None:
    with opening(judge_cache, tmp_path / "trains.py", TRAINS) as (drawer, pool):
        # though the constructor draws it as the inputs are drawn
        assert pool.updated == ["latest"]
        sets = [input_set for state, input_set in pool.checking if state == 0][:1]
        initial = drawer.initial_state(pool)["latest"]
        training = drawer.updates.after(pool, 0, sets)["latest"].expected
        evaluating = drawer.updates.after(pool, 0, sets, evaluating=True)["latest"].expected
        assert torch.equal(evaluating, initial.double())
        assert not torch.allclose(training, evaluating)


# nothing undoes an evaluation of it: no call updates the mean afterwards, or each does so otherwise
SPENT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("mean", torch.zeros(4))
        self.spent, self.scale = False, 1.0

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            {evaluated}
        return self
{more}
    def forward(self, x):
        if not self.spent:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0) * self.scale, 0.1)
        return x * self.weight * self.scale


def get_inputs():
    return [torch.randn(8, 4)]


def get_init_inputs():
    return []
"""
UNCOPIED = """
    def __deepcopy__(self, memo):
        raise TypeError("there is one of it")
"""


def test_the_reference_is_as_before_however_it_is_evaluated(
    judge_cache: Path, tmp_path: Path
) -> None:
    text = SPENT.format(evaluated="self.spent = True", more="")
    with opening(judge_cache, tmp_path / "spent.py", text) as (drawer, pool):
        sets = [input_set for state, input_set in pool.checking if state == 0][:2]
        initial = drawer.initial_state(pool)["mean"]
        before = drawer.updates.after(pool, 0, sets)["mean"]
        assert drawer.updates.ignores_modes(pool)
        evaluating = drawer.updates.after(pool, 0, sets, evaluating=True)["mean"]
        for left in (evaluating.expected, evaluating.framework):
            assert torch.equal(left.double(), initial.double())
        again = drawer.updates.after(pool, 0, sets)["mean"]
        assert torch.equal(again.expected, before.expected)
        assert torch.equal(again.framework, before.framework)


@pytest.mark.parametrize(
    ("evaluated", "more"),
    [("self.scale = 2.0", ""), ("self.spent = True", UNCOPIED)],
    ids=["other_results", "not_copied"],
)
def test_the_reference_is_as_before_where_it_does_not_ignore_modes(
    judge_cache: Path, tmp_path: Path, evaluated: str, more: str
) -> None:
    text = SPENT.format(evaluated=evaluated, more=more)
    with opening(judge_cache, tmp_path / "merged.py", text) as (drawer, pool):
        sets = [input_set for state, input_set in pool.checking if state == 0][:1]
        before = drawer.updates.after(pool, 0, sets)["mean"]
        assert not drawer.updates.ignores_modes(pool)
        again = drawer.updates.after(pool, 0, sets)["mean"]
        assert torch.equal(again.expected, before.expected)
        assert torch.equal(again.framework, before.framework)
