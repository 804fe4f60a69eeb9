"""Ratios, times and sizes as they are read."""

from __future__ import annotations

import pytest

from kevolve_mcp import quantities


def test_a_ratio_has_its_interval_where_there_is_one() -> None:
    assert quantities.times(1.8333, (1.7912, 1.88)) == "1.83x [1.79, 1.88]"
    assert quantities.times(1.8333) == "1.83x"
    assert quantities.times(None) == "untimed"
    assert quantities.speedup(1.8, (1.75, 1.88)) == "1.80× [1.75, 1.88]"
    assert quantities.speedup(140.2) == "140×"
    assert quantities.speedup(None) == quantities.NOTHING


@pytest.mark.parametrize(
    ("size", "read"), [(12 << 20, "12 MiB"), (1 << 30, "1.0 GiB"), (3328 << 20, "3.2 GiB")]
)
def test_a_size_has_the_unit_that_suits(size: int, read: str) -> None:
    assert quantities.memory(size) == read


def test_a_share_is_a_percentage() -> None:
    assert quantities.share(0.834) == "83%"
    assert quantities.percent(0.834) == "83 %"
    assert quantities.percent(None) == quantities.NOTHING
