"""What bounds a kernel, from its figures."""

from __future__ import annotations

import pytest

from harness.judge.evaluation.diagnosis import Measured, diagnose
from harness.types import Case, CaseResult, Ceilings

CEILINGS = Ceilings({"memory": 10e9}, {"memory": 10e9}, {"float32": 1e9}, {"memory": 1 << 30})
CASE = Case("usual", bytes_min=100_000, bytes_written=50_000, operations=100.0)


@pytest.mark.parametrize(
    ("share", "signal"), [(None, "latency_bound"), (0.7, "latency_bound"), (0.29, "launch_bound")]
)
def test_a_call_that_is_mostly_not_its_kernel_is_bound_by_its_overhead(
    share: float | None, signal: str
) -> None:
    result = CaseResult(
        "usual", correct=True, latency_us=200.0, baselines={"eager": 400.0}, speedup=2.0,
        interval=(1.9, 2.1), verdict="faster", own_kernel_fraction=share,
    )  # fmt: skip
    (found,) = diagnose([Measured(CASE, result, 100_000)], CEILINGS, ())
    assert found.name == signal
    assert ("own kernels take 29% of a call (58 us)" in found.message) == (share == 0.29)
