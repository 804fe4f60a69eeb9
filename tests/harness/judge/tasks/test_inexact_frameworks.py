"""A framework that is inexact anyway, as in TF32, does not rule out a family of inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.correctness import tolerance
from harness.judge.tasks import input_families

FLOOR = tolerance.floor("float32", 1024)


def allowances(error: float) -> list[tolerance.Allowance]:
    return [tolerance.Allowance(1.0, 1.0, 1.0, 1.0, error)]


def objection(plain: float | None, found: float) -> str:
    values = [torch.ones(4)]
    pool: Any = SimpleNamespace(
        allowances=[] if plain is None else allowances(plain),
        outputs={"leaves": [{"dtype": "float32"}]},
        reductions=[1024],
    )
    drawn: Any = SimpleNamespace(
        family="shifted",
        finite=True,
        left_open=[],
        expected=values,
        framework=values,
        allowances=allowances(found),
    )
    return input_families.objection(pool, drawn)


@pytest.mark.parametrize(
    ("plain", "found", "usable"),
    [
        (None, 60 * FLOOR, True),
        (FLOOR, 60 * FLOOR, True),
        (FLOOR, 100 * FLOOR, False),
        (100 * FLOOR, 150 * FLOOR, True),
        (100 * FLOOR, 1000 * FLOOR, False),
    ],
)
def test_a_family_is_compared_with_plain_inputs(
    plain: float | None, found: float, usable: bool
) -> None:
    assert (objection(plain, found) == "") is usable
