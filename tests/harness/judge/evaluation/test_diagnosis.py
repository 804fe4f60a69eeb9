"""What bounds a kernel, from its figures."""

from __future__ import annotations

import pytest

from harness.judge.evaluation.diagnosis import MeasuredCase, diagnose
from harness.types import Case, CaseResult, Ceilings

CEILINGS = Ceilings({"memory": 10e9}, {"memory": 10e9}, {"float32": 1e9}, {"memory": 1 << 30})
CASE = Case("usual", bytes_min=100_000, bytes_written=50_000, operations=100.0)


@pytest.mark.parametrize(
    ("share", "launch_us", "name"),
    [
        (None, 200.0, "latency_bound"),
        (0.7, 200.0, "latency_bound"),
        (0.29, 200.0, "launch_bound"),
        # a device works while the host issues the next call
        (0.29, 20.0, "latency_bound"),
    ],
)
def test_what_is_around_the_kernels_is_named_where_they_take_little(
    share: float | None, launch_us: float, name: str
) -> None:
    result = CaseResult(
        "usual", correct=True, latency_us=200.0, baselines={"eager": 400.0}, speedup=2.0,
        interval=(1.9, 2.1), verdict="faster", own_kernel_fraction=share, launch_us=launch_us,
        warm_us=50.0,
    )  # fmt: skip
    (found,) = diagnose([MeasuredCase(CASE, result, 100_000)], CEILINGS, ())
    assert found.name == name
    assert ("; own kernels take" in found.message) == (share is not None)
    assert "; 50.0 us with warm caches" in found.message
