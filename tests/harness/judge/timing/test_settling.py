"""When the allocator of a timed process counts as settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.timing.settling import (
    FAULT_NS,
    LARGE_FAULT_NS,
    is_settled,
    longest_fault_ns,
)


@pytest.mark.parametrize(
    ("faults", "burst_ns", "settled"),
    [
        (0, 1, True),
        (1, 10_000_000, True),  # a page now and then
        (1, 100_000, False),  # which is much of a short burst
        (4096, 10_000_000, False),  # outputs of 16 MiB in fresh pages
        (4096, 1_000_000_000, False),
    ],
)
def test_faults_count_by_their_share_of_a_burst(faults: int, burst_ns: int, settled: bool) -> None:
    assert is_settled(faults, burst_ns, FAULT_NS) is settled


def test_one_large_page_is_as_dear_as_many_small_ones() -> None:
    assert not is_settled(1, 10_000_000, LARGE_FAULT_NS)
    assert is_settled(1, 100_000_000, LARGE_FAULT_NS)


def test_the_kernel_says_whether_any_fault_may_bring_a_large_page(tmp_path: Path) -> None:
    for number, (chosen, fault_ns) in enumerate(
        {
            "[always] madvise never": LARGE_FAULT_NS,
            "always [madvise] never": FAULT_NS,
            "always madvise [never]": FAULT_NS,
        }.items()
    ):
        setting = tmp_path / str(number)
        setting.write_text(f"{chosen}\n")
        assert longest_fault_ns(setting) == fault_ns
    assert longest_fault_ns(tmp_path / "a kernel without them") == FAULT_NS
