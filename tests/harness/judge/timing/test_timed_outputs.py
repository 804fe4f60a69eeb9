"""Timed outputs whose inputs the framework itself does not bear in every draw."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.judge.device.machine import Machine
from harness.judge.exchange import input_sets
from harness.judge.exchange.case_pool import CasePool
from harness.judge.exchange.input_sets import Group, Half
from harness.judge.tasks import input_families, set_allowances
from harness.judge.tasks.drawer import Drawer
from harness.judge.tasks.opening import open_task
from harness.judge.timing.timed_outputs import WrongWhenTimed, verify_outputs
from harness.wire.nesting import tensors_of

# the hidden layer has 16 bits: where the largest elements of both inputs meet it is infinite
TASK = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, w):
        hidden = torch.bmm(x, w)
        return F.rms_norm(hidden, hidden.shape[-1:])


def get_inputs():
    return [torch.randn(64, 4, 64).half(), (0.125 * torch.randn(64, 64, 8)).half()]


def get_init_inputs():
    return []
"""
DRAWS = 60


class Given:
    """Slots that hold these outputs."""

    def __init__(self, outputs: torch.Tensor) -> None:
        self._outputs = outputs

    def stack(self, memory: Any, calls: int) -> list[torch.Tensor]:
        return [self._outputs]


@pytest.fixture
def drawn(judge_cache: Path) -> Iterator[tuple[Drawer, CasePool, Group, torch.Tensor]]:
    """A pool that bears uneven draws, one of these in which the framework overflows all the same,
    and what it gives there."""
    machine = Machine(judge_cache)
    problem = types.ModuleType("problem")
    exec(compile(TASK, "problem.py", "exec"), problem.__dict__)
    try:
        opened, _ = open_task(machine, TASK, "", lambda *_: None, None, timed=False)
        try:
            drawer, pool = opened.drawer, opened.drawer.describe("default")
            drawer.draw_checking(pool)
            examples = (drawer.draw_example(pool, "uneven") for _ in range(DRAWS))
            borne = next(each for each in examples if not input_families.objection(pool, each))
            pool.family_allowances["uneven"] = set_allowances.family_allowances(pool, borne)
            for _ in range(DRAWS):
                group = drawer._maker.make_group(pool, ["uneven"])
                given = tensors_of(group.sets[0].file.value(group.sets[0].layout))
                output = problem.Model()(*given)
                if not bool(output.isfinite().all()):
                    break
            yield drawer, pool, group, output
            pool.close()
        finally:
            opened.close()
    finally:
        machine.close()


def verify(drawer: Drawer, pool: CasePool, group: Group, output: torch.Tensor) -> None:
    half = Half(0, [group], pool.checking[0][1], input_sets.typical_sizes([group]))
    verify_outputs("default", pool, [(None, group)], half, Given(output[None]), drawer)  # type: ignore[arg-type]


def test_nothing_is_asked_where_the_framework_overflows(
    drawn: tuple[Drawer, CasePool, Group, torch.Tensor],
) -> None:
    drawer, pool, group, output = drawn
    lost = ~output.isfinite()
    assert 0 < int(lost.sum()) < lost.numel() / 2
    verify(drawer, pool, group, output)
    verify(drawer, pool, group, output.masked_fill(lost, 1.0))
    wrong = output.clone()
    wrong[int((~lost.flatten(1).any(1)).nonzero()[0])] *= 1.5
    with pytest.raises(WrongWhenTimed):
        verify(drawer, pool, group, wrong)
