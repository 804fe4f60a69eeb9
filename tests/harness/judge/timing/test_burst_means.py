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
