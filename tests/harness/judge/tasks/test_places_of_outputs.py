"""Where a reference's outputs lie: what one draw says holds for no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judge.device.machine import Machine
from harness.judge.exchange.input_sets import InputSet
from harness.judge.tasks.opening import open_task
from harness.wire.nesting import tensors_of

DRAWS = 24
TASK = """
import random, torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 8))

    def forward(self, x, step):
        y = torch.tanh(x) + self.table
        return y, (y if step == 1 else y * 2), (self.table if step == 2 else y + 1)

def get_inputs():
    return [torch.randn(4, 8), STEP]
"""


def number(held: InputSet) -> Any:
    """The step of a set."""
    (value,) = (leaf["value"] for leaf in held.layout["leaves"] if "value" in leaf)
    return value


def entry(held: InputSet) -> Any:
    """The same, where it is a tensor."""
    return int(tensors_of(held.file.value(held.layout, held.base))[1])


@pytest.mark.parametrize(
    ("drawn", "step"),
    [
        ("random.randrange(3)", number),
        ("torch.randint(0, 3, ())", entry),
    ],
)
def test_each_set_knows_where_outputs_lie(drawn: str, step: Any, judge_cache: Path) -> None:
    machine = Machine(judge_cache)
    try:
        text = TASK.replace("STEP", drawn)
        opened, _ = open_task(machine, text, "steps.py", lambda *_: None, None, timed=False)
        try:
            pool = opened.pool("default")
            opened.drawer.draw_timing(pool, 100.0)
            sets = [opened.drawer.sample(pool) for _ in range(DRAWS)]
            sets += [held for group in pool.timing for held in group.sets]
            assert len({step(held) for held in sets}) > 1
            for held in sets:
                assert held.memory == {
                    "same": [2] if step(held) == 2 else [],
                    "together": [0, 0 if step(held) == 1 else 1, 2],
                }
        finally:
            opened.close()
    finally:
        machine.close()
