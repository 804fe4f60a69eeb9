"""The numbers of calls and bursts that a case is timed with, by its size and its speed. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...settings import timing_effort
from ...wire import memory_files
from ..exchange.case_pool import CasePool

POOL_BYTES = 1 << 30  # limit on the timing sets of a case
FEW_BYTES, FEW_SECONDS = 256 << 20, 0.15  # limits on sets beyond BURSTS, and on calls on them
HOST_BURST_US, DEVICE_BURST_US = 100.0, 200.0  # calls are timed in bursts of about this length
SHORT_US = 1_000.0  # shorter calls are sent by packet
# (unmeasured calls, limit in microseconds): unmeasured calls on a CPU before measured ones shorter
# than the limit, so that both sides find caches as their own calls left them. A copy of eager that
# warmed itself appeared 1.15 to 1.5 times as fast at 14 us. For long calls caches matter little,
# and both sides find them as the judge's copies left them.
WARM_CALLS = ((6, 100.0), (2, SHORT_US), (1, 5_000.0), (0, math.inf))
BURSTS = 8  # per process; more if a case is small, since the interval narrows with their number
# bytes above which a set takes long to draw, and the least number of such sets in a search
DEAR_BYTES, DEAR_BURSTS = 512 << 10, 4
SEARCH_BURSTS, CONFIRMATION_BURSTS = (
    max(BURSTS, round(timing_effort() * bursts)) for bursts in (64, 128)
)
MAX_CALLS, MOST_HOST_CALLS = 32, 8
# On a device where the judge's clock measures bursts, with an error of 2 us and an overhead of 3 ms
# for each (H200): length, most calls and number of bursts, number of calls that are bursts of their
# own, and number of empty bursts; each (in a search, in a confirmation).
QUEUED_BURST_US, MOST_QUEUED_CALLS, QUEUED_BURSTS, QUEUED_SINGLES, QUEUED_EMPTY = (
    (300.0, 1_000.0),
    (32, 96),
    (6, 8),
    (8, 32),
    (5, 15),
)
# per process on a device: calls that are bursts of their own, fewer if a set is large
SINGLE_CALLS = 8


@dataclass(frozen=True)
class TimingPlan:
    """How one case is timed in one pair of processes. calls: measured calls of a burst. warm_calls:
    unmeasured calls before them. bursts: for each candidate. single_calls: calls that are bursts of
    their own, for each candidate. empty_bursts: bursts without calls. short: whether calls are
    short."""

    calls: int
    warm_calls: int
    bursts: int
    single_calls: int
    empty_bursts: int
    short: bool


def plan_timing(
    pool: CasePool,
    latency_us: float,
    bursts: int,
    candidates: int,
    free_bytes: int,
    *,
    one_by_one: bool,
) -> TimingPlan:
    """Plan the timing of a kernel of about `latency_us` per call: `bursts` bursts if the case is
    small, for each candidate. free_bytes: for all sets. one_by_one: whether calls are made one by
    one."""
    confirming = bursts > SEARCH_BURSTS
    call_bytes = pool.input_bytes + pool.slot_bytes + pool.alternative_bytes + 2 * memory_files.PAGE
    call_us = max(latency_us, 1.0)
    length_us, most_calls = (
        (HOST_BURST_US, MOST_HOST_CALLS) if one_by_one else (DEVICE_BURST_US, MAX_CALLS)
    )
    single_calls, least_bursts, empty_bursts = SINGLE_CALLS, BURSTS, 0
    if pool.shared:
        length_us, most_calls = QUEUED_BURST_US[confirming], MOST_QUEUED_CALLS[confirming]
        single_calls, empty_bursts = QUEUED_SINGLES[confirming], QUEUED_EMPTY[confirming]
    warm_calls = next(n for n, limit in WARM_CALLS if latency_us < limit) if one_by_one else 0
    affordable = max(4, min(POOL_BYTES, free_bytes // 8) // (call_bytes * candidates))
    calls = max(1, min(most_calls, round(length_us / call_us), affordable // 4))
    cheap_bursts = 0
    if one_by_one:
        spent_us = (calls + warm_calls) * call_us
        cheap_bursts = min(
            bursts, FEW_BYTES // (calls * call_bytes), round(1e6 * FEW_SECONDS / spent_us)
        )
    if pool.input_bytes > DEAR_BYTES:  # at least 7 ms to draw a set and its expected outputs
        cheap_bursts = min(cheap_bursts, BURSTS if confirming else DEAR_BURSTS)
        least_bursts = min(BURSTS, max(cheap_bursts, DEAR_BURSTS))
    if pool.shared:
        least_bursts = QUEUED_BURSTS[confirming]
    return TimingPlan(
        calls,
        warm_calls,
        max(1, min(max(least_bursts, cheap_bursts), affordable // calls)),
        min(single_calls, affordable // 4),
        empty_bursts,
        latency_us < SHORT_US,
    )
