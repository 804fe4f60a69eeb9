"""The device memory that is counted for no process."""

from __future__ import annotations

from harness.targets import cuda
from harness.targets.nvml import GpuState

GIB = 1 << 30


def reading(held: int | None, *processes: int) -> GpuState:
    return GpuState(processes=dict.fromkeys(processes, GIB), held_bytes=held)


def test_what_is_more_than_the_least_so_far_counts_beyond_the_drivers_own() -> None:
    unowned = cuda.Unowned()
    assert unowned.beyond(reading(GIB), reading(GIB)) == 0
    assert unowned.beyond(reading(GIB + 1000), reading(GIB + 1000)) == 0
    assert unowned.beyond(reading(3 * GIB), reading(3 * GIB)) == 2 * GIB - cuda.CONTEXTS_BYTES
    assert unowned.beyond(reading(0), reading(0)) == 0
    assert unowned.beyond(reading(2 * GIB), reading(3 * GIB)) == 2 * GIB - cuda.CONTEXTS_BYTES


def test_readings_between_which_a_process_comes_or_goes_do_not_count() -> None:
    unowned = cuda.Unowned()
    unowned.beyond(reading(GIB, 7), reading(GIB, 7))
    assert unowned.beyond(reading(0, 7, 8), reading(0, 7)) == 0
    assert unowned.beyond(reading(None), reading(9 * GIB)) == 0
    # neither made the least smaller
    assert unowned.beyond(reading(GIB, 7), reading(GIB, 7)) == 0
    assert unowned.beyond(reading(2 * GIB, 7), reading(2 * GIB, 7)) > 0
