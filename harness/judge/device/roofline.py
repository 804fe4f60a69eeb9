"""The speed limits of a case on this device: a roofline to aim at, and a bound below which a time
is impossible."""

from __future__ import annotations

from collections.abc import Mapping

from ...types import Case, Ceilings


def level_of(size: int, ceilings: Ceilings) -> str:
    """Return the smallest memory level that holds `size` bytes."""
    ordered = sorted(ceilings.level_bytes.items(), key=lambda item: item[1])
    return next((level for level, capacity in ordered if size <= capacity), ordered[-1][0])


def memory_us(case: Case, ceilings: Ceilings, working_set: int) -> float:
    """Return the time to move inputs (from the level of the rotating sets, or of all that a call
    moves, parameters included) and outputs (in the level of their reused memory) once each.

    The measured rate counts reads plus writes of a scaling kernel, so both directions are divided
    by it. The rate with streamed stores is used where the outputs are in a level that is faster
    with them, since any kernel could use such stores.
    """
    rates = _reachable(ceilings) if is_streamed(case, ceilings) else ceilings.bandwidth
    return _moving_us(case, ceilings, _moved_bytes(case, working_set), rates)


def _moved_bytes(case: Case, working_set: int) -> int:
    return max(working_set, case.bytes_min)


def is_streamed(case: Case, ceilings: Ceilings) -> bool:
    """Return whether the outputs of a case are compared with streamed stores, by their size
    alone."""
    level = _levels(case, ceilings, 0)[1]
    return ceilings.streamed_bandwidth.get(level, 0.0) > ceilings.bandwidth[level]


def moved_between(case: Case, ceilings: Ceilings, working_set: int) -> str:
    """Describe the levels that the roofline assumes for a call's bytes: "inputs in L3, outputs in
    memory, streamed stores"."""
    from_level, to_level = _levels(case, ceilings, _moved_bytes(case, working_set))
    streamed = ", streamed stores" if is_streamed(case, ceilings) else ""
    return f"inputs in {from_level}, outputs in {to_level}{streamed}"


def _levels(case: Case, ceilings: Ceilings, working_set: int) -> tuple[str, str]:
    """Return the levels of inputs and of outputs."""
    return level_of(working_set, ceilings), level_of(2 * case.bytes_written, ceilings)


def _moving_us(
    case: Case, ceilings: Ceilings, working_set: int, rates: Mapping[str, float]
) -> float:
    from_level, to_level = _levels(case, ceilings, working_set)
    read = case.bytes_min - case.bytes_written
    return 1e6 * (read / rates[from_level] + case.bytes_written / rates[to_level])


def _reachable(ceilings: Ceilings) -> dict[str, float]:
    """Return the higher rate of each level, with either kind of stores."""
    streamed = ceilings.streamed_bandwidth
    return {name: max(rate, streamed.get(name, 0.0)) for name, rate in ceilings.bandwidth.items()}


def copying_us(case: Case, ceilings: Ceilings) -> float:
    """Return the time to read the outputs of one call from the slowest level."""
    return 1e6 * case.bytes_written / min(ceilings.bandwidth.values())


def compute_us(case: Case, ceilings: Ceilings) -> float:
    """Return the operations over the measured multiply-add rate of `computed_in`."""
    return 1e6 * case.operations / ceilings.operations[computed_in(case, ceilings)]


def computed_in(case: Case, ceilings: Ceilings) -> str:
    """Return the dtype whose rate limits a case: that of its outputs, float32 where the rate of
    theirs was not measured."""
    return next((o.dtype for o in case.outputs if o.dtype in ceilings.operations), "float32")


def roofline_time_us(case: Case, ceilings: Ceilings, working_set: int) -> float:
    """Return the larger of memory and compute time, and at least the launch floor."""
    return max(
        memory_us(case, ceilings, working_set), compute_us(case, ceilings), ceilings.launch_us
    )


def limit(case: Case, ceilings: Ceilings, working_set: int) -> str:
    """Name what decides `roofline_time_us`: "memory: inputs in L3, outputs in memory", "arithmetic"
    or "the launch of a call"."""
    times = {
        f"memory: {moved_between(case, ceilings, working_set)}": memory_us(
            case, ceilings, working_set
        ),
        "arithmetic": compute_us(case, ceilings),
        "the launch of a call": ceilings.launch_us,
    }
    return max(times, key=lambda name: times[name])


# Share of the launch floor that a call takes at least, since launches overlap: two kernels of 2 KiB
# each, started early by programmatic dependent launch, took 1.67 us a call (H200).
OVERLAPPED = 0.25


def plausible_us(case: Case, ceilings: Ceilings, working_set: int, narrow_factor: float) -> float:
    """Return the shortest plausible time: the roofline with the higher rate of both kinds of stores
    and the highest operation rate of any format. A kernel may compute exactly in another format
    than that of its outputs, such as 8-bit integers for float32 outputs. narrow_factor: see
    DeviceFamily."""
    fastest = narrow_factor * max(ceilings.operations.values())
    return max(
        _moving_us(case, ceilings, working_set, _reachable(ceilings)),
        1e6 * case.operations / fastest,
        ceilings.launch_us,
    )


def impossible_us(nbytes: int, ceilings: Ceilings) -> float:
    """Return 95 % of the time to write outputs of `nbytes` at the rate of the fastest level that
    can hold them, with either kind of stores, or of a share of the launch floor if that is
    longer."""
    level, streamed = level_of(nbytes, ceilings), ceilings.streamed_write_bandwidth
    fastest = max(
        max(rate, streamed.get(name, 0.0))
        for name, rate in ceilings.write_bandwidth.items()
        if ceilings.level_bytes[name] >= ceilings.level_bytes[level]
    )
    return 0.95 * max(1e6 * nbytes / fastest, OVERLAPPED * ceilings.launch_us)
