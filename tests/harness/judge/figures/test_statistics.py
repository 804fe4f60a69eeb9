"""Verdicts on simulated pairs: noise is not a speed-up, a real difference is one."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from harness.judge.figures import statistics


def simulate(
    speedup: float,
    rng: random.Random,
    processes: int = 3,
    pairs: int = 8,
    noise: float = 0.02,
    luck: float = 0.0,
) -> list[list[tuple[float, float]]]:
    """Pairs with a common drift, independent noise, and an occasional outlier on either side. luck:
    how far candidate processes differ, as small kernels do by where their memory lies."""
    found = []
    for _ in range(processes):
        drift = rng.uniform(0.9, 1.1)
        own = speedup * rng.lognormvariate(0, luck)
        process = []
        for _ in range(pairs):
            a, b = (
                100 * drift * rng.lognormvariate(0, noise) * (3 if rng.random() < 0.03 else 1)
                for _ in range(2)
            )
            process.append((a, b / own))
        found.append(process)
    return found


def test_equal_kernels_are_hardly_ever_called_faster_or_slower() -> None:
    rng = random.Random(7)
    verdicts = [statistics.compare(simulate(1.0, rng), 1.02, rng).verdict for _ in range(100)]
    assert sum(v in ("faster", "slower") for v in verdicts) <= 1


@pytest.mark.parametrize("processes", [3, 6])
def test_processes_that_differ_are_no_difference_of_kernels(processes: int) -> None:
    rng = random.Random(13)
    found = [
        statistics.compare(
            simulate(1.0, rng, processes, pairs=24, noise=0.003, luck=0.02), 1.01, rng
        )
        for _ in range(100)
    ]
    assert sum(c.verdict in ("faster", "slower") for c in found) <= 4
    # 95 % of them, less what chance takes
    assert sum(c.interval[0] <= 1 <= c.interval[1] for c in found) >= 89


def test_processes_that_agree_by_luck_are_no_difference_of_kernels() -> None:
    """Each process runs at one of two speeds, as a kernel of 3.6 us does on a GPU: three pairs may
    well draw the same two."""
    rng = random.Random(15)

    def verdicts(speedup: float, process_us: float) -> list[str]:
        found = []
        for _ in range(200):
            levels = [
                (rng.choice((3.45, 3.6)), rng.choice((3.45, 3.6)) / speedup) for _ in range(3)
            ]
            pairs = [[(a * rng.lognormvariate(0, 0.002), b) for _ in range(8)] for a, b in levels]
            found.append(str(statistics.compare(pairs, 1.01, rng, process_us=process_us).verdict))
        return found

    assert sum(v in ("faster", "slower") for v in verdicts(1.0, 0.0)) > 2  # what is guarded against
    assert sum(v in ("faster", "slower") for v in verdicts(1.0, 0.075)) <= 2
    assert verdicts(1.3, 0.075).count("faster") >= 190


def test_many_processes_narrow_the_interval_as_student_says() -> None:
    rng = random.Random(16)
    logs = [rng.gauss(0, 0.03) for _ in range(25)]
    found = statistics.compare([[(math.exp(v), 1.0)] * 8 for v in logs], 1.01, rng)
    half = 2.064 * stdev(logs) / 5  # 2.064: of 24 degrees of freedom
    assert math.log(found.interval[1]) >= fmean(logs) + half - 1e-4
    assert math.log(found.interval[1]) - math.log(found.interval[0]) < 2 * 1.5 * half


def test_one_baseline_process_is_one_draw_of_its_luck() -> None:
    rng = random.Random(14)

    def against_one(luck: float) -> statistics.Comparison:
        baseline = rng.lognormvariate(0, luck)
        pairs = simulate(1.0, rng, pairs=24, noise=0.003, luck=luck)
        return statistics.compare(
            [[(a * baseline, b) for a, b in p] for p in pairs], 1.01, rng, baselines=1
        )

    assert sum(against_one(0.02).verdict in ("faster", "slower") for _ in range(200)) <= 7
    calm = simulate(1.05, rng, pairs=24, noise=0.003)
    assert statistics.compare(calm, 1.01, rng, baselines=1).verdict == "faster"


@pytest.mark.parametrize(("speedup", "verdict"), [(1.15, "faster"), (0.85, "slower")])
def test_a_real_difference_is_called(speedup: float, verdict: str) -> None:
    rng = random.Random(8)
    verdicts = [statistics.compare(simulate(speedup, rng), 1.02, rng).verdict for _ in range(100)]
    assert verdicts.count(verdict) >= 95  # type: ignore[arg-type]


def test_a_tight_tie_is_the_same() -> None:
    rng = random.Random(9)
    assert (
        statistics.compare(simulate(1.0, rng, pairs=40, noise=0.004), 1.02, rng).verdict
        == "equivalent"
    )


def test_two_processes_are_not_enough_for_a_verdict() -> None:
    rng = random.Random(10)
    assert statistics.compare(simulate(2.0, rng, processes=2), 1.02, rng).verdict == "inconclusive"


def test_one_process_that_disagrees_forbids_a_verdict() -> None:
    rng = random.Random(11)
    mixed = simulate(1.5, rng, processes=3) + simulate(0.9, rng, processes=1)
    assert statistics.compare(mixed, 1.02, rng).verdict == "inconclusive"


def test_the_speed_up_is_the_median_ratio_inside_its_interval() -> None:
    rng = random.Random(12)
    found = statistics.compare(simulate(1.3, rng), 1.02, rng)
    assert found.interval[0] <= found.speedup <= found.interval[1]
    assert found.speedup == pytest.approx(1.3, rel=0.05)
    assert found.pairs == 24
