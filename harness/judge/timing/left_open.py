"""By how much a call may be longer than its figure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..exchange import device_reservoir
from ..exchange.case_pool import CasePool
from ..figures.case_times import CaseTimes
from ..stage_context import StageContext

# What clearing memory takes, with the launch of a kernel, as a multiple of the least time to write
# it: 64 MiB saved an attack 18 us a call (H200)
CLEARING = 2.0
# What copying outputs in a turn takes, as a multiple of the time at the measured rate: plain copies
# of 8 MiB took 2.7 and 3.3 times that, the latter while the baseline was 1.9 times slower than when
# the task was opened (2-core virtual machine)
MOST_COPYING = 3.0
# What the launch takes that clears a call's outputs (1.6 us on an H200): a copy engine can do that
# while the device changes to the candidate's process, after the judge's word and in time that is
# deducted
LAUNCH_US = 2.0
Times = Mapping[str, CaseTimes]  # by case


def left_open_us(context: StageContext, times: Times, case: str, baseline: str) -> float:
    """Return by how much a call may be longer than its figure; with earlier samples the larger
    value, since their rounds keep the uncertainty of their measurement."""
    case_times = times[case]
    earlier = context.request.earlier.open_us.get(case, {}).get(baseline, 0.0)
    return max(
        earlier,
        case_times.clock_open_us
        + hidden_us(context, case_times, case, baseline)
        + case_times.alone_open_us(baseline)
        + case_times.unseen_us
        + case_times.host_open_us(baseline),
    )


def hidden_us(context: StageContext, times: CaseTimes, case: str, baseline: str) -> float:
    """Return the time per call that a candidate may have spent where its figure does not show it:
    on a CPU in other calls, or copying outputs or its other memory beforehand; on a device writing
    these before the judge's word or while nobody watches, and launching what writes them. All of
    the baseline's where nobody knows what was updated."""
    family = context.task.family
    if times.state_doubt:
        return times.medians[baseline]
    pools = context.task.pools
    pool = pools[case]
    # a process keeps the models of all cases, and some outputs for the judge
    needed_bytes = sum(each.state_bytes for each in pools.values()) + pool.calls * pool.held_bytes
    if family.SYNCHRONOUS:  # of what is cleared or copied there, the price is below
        unseen_bytes = times.prepared_bytes(needed_bytes + int(pool.describe["workspace_bytes"]))
    else:
        needed_bytes += device_reservoir.most_bytes(pool)
        unseen_bytes = max(
            times.early_bytes(baseline, pool.state_bytes),
            CLEARING * times.cleared_bytes(needed_bytes),
        )
    if not times.may_be_ready and not unseen_bytes:
        return times.hidden_us(baseline, family.MARGIN, 0.0) + _launch_us(pool)
    ceilings = context.machine.ceilings_of(family)
    us_per_byte = 1e6 / min(ceilings.write_bandwidth.values())
    if family.SYNCHRONOUS:  # pages are mapped, or outputs copied
        copying_us = 1e6 * 2 / min(ceilings.bandwidth.values())
        # Caches and translations are cold in a turn. No ceiling shows it; a baseline that mostly
        # copies does, and the limit is for one that computes.
        baseline_us = times.medians[times.strongest] / pool.slot_bytes
        us_per_byte = max(
            copying_us * _slowdown(context, times, case),
            min(baseline_us, MOST_COPYING * copying_us),
        )
    return (
        times.hidden_us(baseline, family.MARGIN, us_per_byte)
        + us_per_byte * unseen_bytes
        + _launch_us(pool)
    )


def _launch_us(pool: CasePool) -> float:
    """Return what a call may save on a device that shares memory with the judge by outputs that are
    cleared behind the judge's word. Who adds nothing up needs none that are clear."""
    return LAUNCH_US if pool.shared and not pool.pointwise else 0.0


def _slowdown(context: StageContext, times: CaseTimes, case: str) -> float:
    """Return by how much the strongest baseline took longer than when the task was opened, at least
    1, and 1 where it was not timed then: where something else uses the memory, copying outputs
    takes longer as well."""
    screened_us = next(each.baselines_us for each in context.facts.cases if each.name == case)
    reached_us = times.medians
    name = times.strongest
    return max(1.0, reached_us[name] / screened_us.get(name, math.inf))
