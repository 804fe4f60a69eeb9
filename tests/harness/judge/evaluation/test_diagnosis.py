"""What bounds a kernel, from its figures."""

from __future__ import annotations

import pytest

from harness.judge.evaluation.diagnosis import Measured, diagnose
from harness.types import Case, CaseResult, Ceilings

CEILINGS = Ceilings({"memory": 10e9}, {"memory": 10e9}, {"float32": 1e9}, {"memory": 1 << 30})
CASE = Case("usual", bytes_min=100_000, bytes_written=50_000, operations=100.0)


@pytest.mark.parametrize(
    ("share", "told", "around"), [(None, False, False), (0.7, True, False), (0.29, True, True)]
)
def test_what_is_around_the_kernels_is_named_first_where_they_take_little(
    share: float | None, told: bool, around: bool
) -> None:
    result = CaseResult(
        "usual", correct=True, latency_us=200.0, baselines={"eager": 400.0}, speedup=2.0,
        interval=(1.9, 2.1), verdict="faster", own_kernel_fraction=share,
    )  # fmt: skip
    (found,) = diagnose([Measured(CASE, result, 100_000)], CEILINGS, ())
    assert found.name == "latency_bound"
    assert ("; own kernels take" in found.message) == told
    assert ("explains the time: what is around the kernels, " in found.message) == around
