"""The mean of what bursts take beside their figure."""

from __future__ import annotations

import pytest

from harness.judge.timing.burst_means import BurstMeans


def test_a_few_bursts_count_for_each_call() -> None:
    means = BurstMeans()
    for ns in (0, 0, 2_080_000, 0):
        means.add("", 4, ns)
    assert means.call_us("", 4) == pytest.approx(130)


def test_calls_alone_and_other_sides_count_for_themselves() -> None:
    means = BurstMeans()
    means.add("", 4, 0)
    means.add("", 1, 2_080_000)
    means.add("eager", 1, 1_000)
    assert (means.call_us("", 4), means.call_us("", 1)) == (0.0, 2_080.0)
    assert means.call_us("compile", 1) == 0.0


def test_one_burst_may_be_left_out() -> None:
    """Of three, since one that compiles is slow by itself."""
    means = BurstMeans()
    for ns in (4_000, 10_000_000, 8_000):
        means.add("", 2, ns)
    assert means.but_one_us("", 2) == pytest.approx(3.0)
    means.add("eager", 2, 4_000)
    assert means.but_one_us("eager", 2) == pytest.approx(2.0)
