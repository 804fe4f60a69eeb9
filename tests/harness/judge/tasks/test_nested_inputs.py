"""A task whose arguments are a named tuple and a dict is judged as one with plain arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.judge.device.machine import Machine
from harness.judge.tasks.opening import open_task
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy
from tests.harness.conftest import Bench

TASK = """
from collections import namedtuple

import torch
import torch.nn as nn

GRADIENTS = True
Batch = namedtuple("Batch", "values target")


class Model(nn.Module):
    def forward(self, batch, options):
        values = batch.values.float() * options["scale"].float()
        losses = nn.functional.cross_entropy(values, batch.target, reduction="none")
        return losses.to(batch.values.dtype)


def get_inputs():
    batch = Batch(torch.randn(64, 400).bfloat16(), torch.randint(0, 400, (64,)))
    return [batch, {"scale": torch.rand(64, 1).bfloat16() + 0.5, "weight": None}]
"""
LAST = '        losses = nn.functional.cross_entropy(values, batch.target, reduction="none")\n'


@pytest.fixture
def machine(judge_cache: Path) -> Iterator[Machine]:
    found = Machine(judge_cache)
    yield found
    found.close()


@pytest.fixture(scope="module")
def judged(bench: Bench) -> Callable[[str], Evaluation]:
    task = bench.run(bench.executor.open_task(TASK, "", "cpu", timed=False))

    def judge(source: str) -> Evaluation:
        request = EvaluationRequest(
            Candidate(source.replace("Model(", "ModelNew("), "cpp"),
            "check",
            "verify",
            Policy(library_calls="allow"),
        )
        return bench.run(bench.executor.evaluate(task, request, "cpu"))

    return judge


@pytest.mark.parametrize(
    ("old", "new", "signal"),
    [
        (LAST, LAST, ""),
        ("batch.values.float()", "batch.values.float().detach()", "wrong.gradients"),
        ('options["scale"].float()', 'options["scale"].float().detach()', "wrong.gradients"),
        ("batch.target", "batch.target.sort().values", "wrong"),
        ('options["scale"].float()', "1.0", "wrong"),
    ],
    ids=["right", "values detached", "scale detached", "other targets", "no scale"],
)
def test_what_stands_inside_counts(
    judged: Callable[[str], Evaluation], old: str, new: str, signal: str
) -> None:
    found = judged(TASK.replace(old, new))
    if signal:
        assert any(s.name.startswith(signal) for s in found.signals), found.message
    else:
        assert found.status == "correct", found.message


def test_the_framework_is_measured_against_more_precise_inputs(machine: Machine) -> None:
    opened, _ = open_task(machine, TASK, "", lambda *_: None, None, timed=False)
    try:
        pool = opened.drawer.describe("default")
        opened.drawer.draw_checking(pool)
        assert pool.describe["doubled"]
        assert "named" in pool.families
        sets = {held.family: held for _, held in pool.checking}
        assert sets["dense"].allowances[0].framework_error > 0
        named, plain = (float(sets[f].expected[0].median()) for f in ("named", "dense"))
        assert named < 1 < 4 < plain
        pool.close()
    finally:
        opened.close()
