"""What hardly exceeds its limits is compared with those of more draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness.judge.correctness.tolerance import Allowance, FrameworkAllowance
from harness.judge.evaluation.mismatches import Mismatches
from harness.judge.exchange.input_sets import InputSet

NO_FILE: Any = None  # nothing here reads the inputs


def test_more_draws_are_asked_for_where_limits_are_hardly_exceeded() -> None:
    asked: list[InputSet] = []

    def more(input_set: InputSet) -> Sequence[Sequence[FrameworkAllowance]]:
        asked.append(input_set)
        return [[FrameworkAllowance(3e-6, 3e-6, 3e-6, 3e-6)]]

    expected = torch.randn(64, 256, dtype=torch.float64)
    own = Allowance(1e-6, 1e-6, 8e-6, 1e-6, 0.0)
    input_set = InputSet(
        NO_FILE,
        0,
        NO_FILE,
        [expected],
        framework=[expected.float()],
        allowances=[own],
    )
    mismatches = Mismatches("default", 1, False, more)

    def signal(factor: float) -> str | None:
        return mismatches.compare(0, (expected * factor).float(), input_set).signal

    assert signal(1 + 1e-7) is None
    assert not asked
    assert signal(1 + 4e-6) is None
    assert asked == [input_set]
    assert signal(1 + 1e-5) is not None
    assert len(asked) == 2
    assert signal(1 + 1e-3) is not None
    assert len(asked) == 2

    mismatches.add(0, (expected * (1 + 4e-6)).float(), input_set, [], changed=False, repeated=True)
    assert not mismatches.wrong
