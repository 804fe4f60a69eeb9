"""A candidate's own clock counts only as far as the judge's reproduces it."""

from __future__ import annotations

import random

import pytest

from harness.judge import statistics
from harness.judge.timing import Block, CaseTimes
from harness.targets.state import DeviceState

ROUNDS, TRUE_NS, GAP_NS = 8, 2_000_000.0, 250_000.0


def times(claims: list[float], noise_ns: float = 10_000.0, true_ns: float = TRUE_NS) -> CaseTimes:
    """Three processes of a candidate that takes true_ns and claims a share of it in each round; messages add noise."""
    rng = random.Random(5)
    found = CaseTimes()
    for _ in range(3):
        inner = [share * true_ns for share in claims]
        block = Block({"eager": [(TRUE_NS / 1e3, ns / 1e3) for ns in inner]}, DeviceState(0), DeviceState(0), inner_ns=inner)
        block.outer_ns = [true_ns + GAP_NS + rng.expovariate(1 / noise_ns) for _ in claims]
        block.gap_ns = [GAP_NS + rng.expovariate(1 / noise_ns) for _ in claims]
        found.blocks.append(block)
    return found


def speedup(found: CaseTimes) -> float:
    return statistics.compare(found.confirmed("eager"), 1.02, random.Random(1)).speedup


@pytest.mark.parametrize("noise_ns", [10_000.0, 400_000.0])
def test_an_honest_figure_is_left_alone(noise_ns: float) -> None:
    found = times([1.0] * ROUNDS, noise_ns)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.15 if noise_ns > 1e5 else 0.01)


@pytest.mark.parametrize("honest_rounds", [0, 1, 2, 3])
def test_a_lie_in_most_rounds_changes_nothing(honest_rounds: int) -> None:
    found = times([1.0] * honest_rounds + [0.25] * (ROUNDS - honest_rounds))
    assert found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_lie_below_the_accusation_does_not_count_either() -> None:
    found = times([0.8] * ROUNDS)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_outputs_that_passed_the_caches_by_are_no_accusation() -> None:
    """Handing them over takes longer than the baseline's: seen on a machine with much cache, where an honest kernel was accused."""
    found = times([0.7] * ROUNDS)
    assert found.clock_disagrees()
    assert not found.clock_disagrees(copying_us=0.4 * TRUE_NS / 1e3)
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_really_faster_candidate_keeps_its_figure() -> None:
    found = times([1.0] * ROUNDS, true_ns=TRUE_NS / 4)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(4.0, rel=0.02)


def alone(found: CaseTimes, candidate_us: float, baseline_us: float) -> CaseTimes:
    """The same with a device's calls alone."""
    rng = random.Random(6)
    for block in found.blocks:
        for side, us in (("", candidate_us), ("eager", baseline_us)):
            block.alone_us[side] = [us * rng.uniform(1, 1.05) for _ in range(8)]
    return found


@pytest.mark.parametrize("faster", [0.5, 1.0, 2.0, 5.0])
def test_what_every_call_alone_costs_accuses_nobody(faster: float) -> None:
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / faster), 500 + us / faster, 500 + us)
    assert found.alone_factor("eager") == 1.0
    assert speedup(found) == pytest.approx(faster, rel=0.02)


@pytest.mark.parametrize("faster", [1.0, 2.0, 3.0])
def test_a_figure_that_only_a_burst_has_does_not_count(faster: float) -> None:
    """Eight calls in one, so that a call's share is an eighth, of a candidate that is faster as well or is not."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / faster / 8), 500 + us / faster, 500 + us)
    assert speedup(found) == pytest.approx(faster, rel=0.1)
