"""What bounds a kernel, from its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.judge.device import roofline
from harness.judge.evaluation.diagnosis import MeasuredCase, diagnose
from harness.types import Case, CaseResult, Ceilings

CEILINGS = Ceilings({"memory": 10e9}, {"memory": 10e9}, {"float32": 1e9}, {"memory": 1 << 30})
# streamed stores are faster where outputs do not fit into L3
STREAMED = Ceilings(
    {"L3": 40e9, "memory": 10e9},
    {"L3": 20e9, "memory": 5e9},
    {"float32": 1e12},
    {"L3": 1 << 20, "memory": 1 << 62},
    streamed_bandwidth={"memory": 15e9},
    streamed_write_bandwidth={"memory": 10e9},
)
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


@pytest.mark.parametrize(
    ("nothing_us", "warm_us", "name", "words"),
    [
        (None, None, "latency_bound", "neither explains the time: instructions"),
        (10.0, 50.0, "latency_bound", "the largest part, 140.0 us, is data, pages and code"),
        (20.0, 150.0, "latency_bound", "the largest part, 150.0 us, is instructions"),
        # without an empty call's time, the bytes take a fifth of the rest, or two fifths and more
        (90.0, 60.0, "latency_bound", "the largest part, 90.0 us, is the evaluator's own part"),
        (176.0, 10.0, "memory_bound", "; an empty call takes 176.0 us of the 200.0 us"),
    ],
)
def test_the_largest_part_of_a_time_that_nothing_explains_is_named(
    nothing_us: float | None, warm_us: float | None, name: str, words: str
) -> None:
    result = CaseResult(
        "usual", correct=True, latency_us=200.0, baselines={"eager": 400.0}, speedup=2.0,
        interval=(1.9, 2.1), verdict="faster", nothing_us=nothing_us, warm_us=warm_us,
    )  # fmt: skip
    (found,) = diagnose([MeasuredCase(CASE, result, 100_000)], CEILINGS, ())
    assert found.name == name
    assert words in found.message


@pytest.mark.parametrize(
    ("written", "least_us", "where"),
    [
        (1 << 20, 2 * (1 << 20) / 15e3, "outputs in memory, streamed stores"),
        # 10 GB/s for inputs, as it ever was, and 40 for outputs
        (1 << 19, (3 << 19) / 10e3 + (1 << 19) / 40e3, "outputs in L3"),
    ],
)
def test_outputs_beyond_the_caches_are_held_against_streamed_stores(
    written: int, least_us: float, where: str
) -> None:
    """Whatever stores a kernel has: what it is held against follows from its sizes."""
    case = Case("big", bytes_min=2 << 20, bytes_written=written)
    latency_us = 1.25 * least_us
    result = CaseResult("big", correct=True, latency_us=latency_us, baselines={"eager": 1e6})
    (found,) = diagnose([MeasuredCase(case, result, 4 << 20)], STREAMED, ())
    assert (found.name, found.evidence["memory_fraction"]) == ("near_roofline", pytest.approx(0.8))
    assert f" GB/s with inputs in memory, {where})" in found.message
    assert roofline.limit(case, STREAMED, 4 << 20) == f"memory: inputs in memory, {where}"


def test_a_table_that_fits_into_no_near_level_is_not_read_from_it() -> None:
    """Parameters belong to what a call moves, though the rotating sets have no bytes of them."""
    lookup = Case("lookup", bytes_min=(2 << 20) + 256, bytes_written=256)
    assert roofline.moved_between(lookup, STREAMED, 512) == "inputs in memory, outputs in L3"
    assert roofline.memory_us(lookup, STREAMED, 512) > 1e6 * (2 << 20) / 10e9


def test_the_ceiling_is_named_by_what_takes_longest() -> None:
    busy = Case("busy", bytes_min=1 << 20, bytes_written=1 << 10, operations=1 << 40)
    assert roofline.limit(busy, STREAMED, 4 << 20) == "arithmetic"
    reached = CaseResult("busy", correct=True, latency_us=1.1e6 * 1.0995, baselines={"eager": 1e7})
    (found,) = diagnose([MeasuredCase(busy, reached, 4 << 20)], STREAMED, ())
    assert found.name == "near_roofline"
    assert "91% of the arithmetic ceiling (float32); products of narrower types" in found.message
    tiny = Case("tiny", bytes_min=64, bytes_written=64)
    assert roofline.limit(tiny, replace(STREAMED, launch_us=3.0), 64) == "the launch of a call"


def test_an_accusation_is_held_against_the_faster_stores() -> None:
    small = Case("small", bytes_min=3 << 20, bytes_written=1 << 19)  # inputs are in memory
    fastest = Ceilings({"L3": 40e9, "memory": 15e9}, {}, {"float32": 1e12}, STREAMED.level_bytes)
    assert roofline.plausible_us(small, STREAMED, 8 << 20, 1.0) == pytest.approx(
        roofline.roofline_time_us(small, fastest, 8 << 20)
    )
    big = Case("big", bytes_min=9 << 20, bytes_written=8 << 20)
    assert roofline.impossible_us(8 << 20, STREAMED) == pytest.approx(0.95 * (8 << 20) / 10e3)
    # launches overlap, so that a call may take less than one
    slow = replace(STREAMED, launch_us=2.0)
    assert roofline.impossible_us(64, slow) == pytest.approx(0.95 * 0.5)
    # what a kernel is granted follows the slower ones
    assert roofline.copying_us(big, STREAMED) == pytest.approx((8 << 20) / 10e3)
