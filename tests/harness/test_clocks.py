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
    assert not found.clock_disagrees
    assert speedup(found) == pytest.approx(1.0, abs=0.15 if noise_ns > 1e5 else 0.01)


@pytest.mark.parametrize("honest_rounds", [0, 1, 2, 3])
def test_a_lie_in_most_rounds_changes_nothing(honest_rounds: int) -> None:
    found = times([1.0] * honest_rounds + [0.25] * (ROUNDS - honest_rounds))
    assert found.clock_disagrees
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_lie_below_the_accusation_does_not_count_either() -> None:
    found = times([0.8] * ROUNDS)
    assert not found.clock_disagrees
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_really_faster_candidate_keeps_its_figure() -> None:
    found = times([1.0] * ROUNDS, true_ns=TRUE_NS / 4)
    assert not found.clock_disagrees
    assert speedup(found) == pytest.approx(4.0, rel=0.02)


def alone(found: CaseTimes, candidate_us: float, baseline_us: float, messages_us: float = 100.0, told: float = 1.0) -> CaseTimes:
    """The same with calls alone: what they take, of which the candidate's own clock tells a share."""
    rng = random.Random(6)
    for block in found.blocks:
        for side, us, share in (("", candidate_us, told), ("eager", baseline_us, 1.0)):
            block.alone_ns[side] = [
                (us * share * 1e3 * rng.uniform(1, 1.1), (us + messages_us) * 1e3 * rng.uniform(1, 1.1)) for _ in range(8)
            ]
    return found


@pytest.mark.parametrize("faster", [0.5, 1.0, 2.0, 5.0])
def test_a_cold_call_alone_accuses_nobody(faster: float) -> None:
    """A fixed cost, and twice the own."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / faster), 300 + 2 * us / faster, 300 + 2 * us)
    assert found.beyond_burst("eager") == 1.0
    assert speedup(found) == pytest.approx(faster, rel=0.02)


@pytest.mark.parametrize("told", [1.0, 0.2])
def test_a_figure_that_only_a_burst_has_does_not_count(told: float) -> None:
    """Four calls in one, so that a call's share is a quarter; alone it takes what the baseline takes, whatever its own clock tells."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / 4), 2 * us, 2 * us, told=told)
    assert speedup(found) == pytest.approx(1.0, abs=0.2)
