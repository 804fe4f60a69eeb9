"""What a witness takes for the usual time to start."""

from __future__ import annotations

from harness.judge.exchange.device_witness import MOST_USUAL_START_NS, usual_start_ns


def test_twice_the_median_of_the_starts_is_usual() -> None:
    assert usual_start_ns([36_000, 38_000, 40_000, 900_000, 37_000]) == 76_000


def test_starts_beside_a_kernel_that_was_left_running_are_not() -> None:
    """Each waited for a time slice (H200)."""
    assert usual_start_ns([2_325_588] * 10) == MOST_USUAL_START_NS
