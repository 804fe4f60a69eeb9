"""How fast a case can be on this device: a roofline to aim at, and a bound below which a time is
impossible."""

from __future__ import annotations

from ...types import Case, Ceilings


def level_of(size: int, ceilings: Ceilings) -> str:
    """The smallest memory level that holds `size` bytes."""
    ordered = sorted(ceilings.level_bytes.items(), key=lambda item: item[1])
    return next((level for level, capacity in ordered if size <= capacity), ordered[-1][0])


def memory_us(case: Case, ceilings: Ceilings, working_set: int) -> float:
    """Time to move inputs (from where the rotating sets live) and outputs (from where their reused
    memory lives), once each.

    The measured rate counts reads plus writes of a scaling kernel, so both directions are divided
    by it.
    """
    read = case.bytes_min - case.bytes_written
    from_level, to_level = (
        level_of(working_set, ceilings),
        level_of(2 * case.bytes_written, ceilings),
    )
    return 1e6 * (
        read / ceilings.bandwidth[from_level] + case.bytes_written / ceilings.bandwidth[to_level]
    )


def moved_between(case: Case, ceilings: Ceilings, working_set: int) -> str:
    """Where the bytes of a call are taken to lie, in words: "inputs in L3, outputs in memory"."""
    return (
        f"inputs in {level_of(working_set, ceilings)}, outputs in "
        f"{level_of(2 * case.bytes_written, ceilings)}"
    )


def copying_us(case: Case, ceilings: Ceilings) -> float:
    """Time to read the outputs of one call from the slowest level."""
    return 1e6 * case.bytes_written / min(ceilings.bandwidth.values())


def compute_us(case: Case, ceilings: Ceilings) -> float:
    """Operations over the measured multiply-add rate of the outputs' dtype (float32 for what was
    not measured)."""
    dtype = next((o.dtype for o in case.outputs if o.dtype in ceilings.operations), "float32")
    return 1e6 * case.operations / ceilings.operations[dtype]


def roofline_time_us(case: Case, ceilings: Ceilings, working_set: int) -> float:
    """The larger of the two, and at least the launch floor."""
    return max(
        memory_us(case, ceilings, working_set), compute_us(case, ceilings), ceilings.launch_us
    )


def plausible_us(case: Case, ceilings: Ceilings, working_set: int, narrow_factor: float) -> float:
    """What a kernel is not expected to stay below: the roofline, with operations at the highest
    rate of any format. Exact kernels may compute in another one than the outputs have, such as
    float32 from integers of eight bits. narrow_factor: of the device, see DeviceFamily."""
    fastest = narrow_factor * max(ceilings.operations.values())
    return max(
        memory_us(case, ceilings, working_set),
        1e6 * case.operations / fastest,
        ceilings.launch_us,
    )


def impossible_us(case: Case, ceilings: Ceilings) -> float:
    """95 % of the time to write the outputs at the rate of the fastest level that can hold them, or
    of the launch floor."""
    level = level_of(case.bytes_written, ceilings)
    fastest = max(
        rate
        for name, rate in ceilings.write_bandwidth.items()
        if ceilings.level_bytes[name] >= ceilings.level_bytes[level]
    )
    return 0.95 * max(1e6 * case.bytes_written / fastest, ceilings.launch_us)
