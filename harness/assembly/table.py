"""The cost of an iteration by a small table of instruction classes, for machines without llvm-mca.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .operations import Core, Operation

ROUNDS = 16  # iterations that are simulated to find the dependency chain between them


@dataclass(frozen=True)
class Estimate:
    """The cost of one iteration, with every load from the first-level cache. limit: the bottleneck,
    in words. pressure: cycles by port. by: what estimated it."""

    cycles: float
    limit: str
    pressure: dict[str, float]
    by: str


def estimate(operations: Sequence[Operation], core: Core) -> Estimate:
    """Estimate an iteration as the longest of three times: that of the busiest group of units, of
    issuing the instructions, and of the chain of dependencies."""
    pressure: dict[str, float] = {
        "issue": sum(o.kind != "nothing" for o in operations) / core.issue
    }
    for operation in operations:
        for group, cycles in core.groups(operation).items():
            pressure[group] = pressure.get(group, 0.0) + cycles / core.units[group]
    busiest = max(pressure, key=lambda name: pressure[name])
    chain = _chain(operations, core)
    limit = (
        "a chain of dependencies from one iteration to the next"
        if chain > 1.05 * pressure[busiest]
        else f"{busiest} units"
    )
    return Estimate(
        max(chain, pressure[busiest]),
        limit,
        pressure,
        f"a table of our own: {core.name} ({core.source})",
    )


def _chain(operations: Sequence[Operation], core: Core) -> float:
    """Return the cycles that an iteration waits for the previous one, given unlimited units."""
    ready: dict[str, float] = {}
    ends = []
    for _ in range(ROUNDS):
        for o in operations:
            value = max((ready.get(r, 0.0) for r in o.reads), default=0.0)
            place = max((ready.get(r, 0.0) for r in o.addresses), default=0.0)
            finish = max(value, place + core.load if o.loads else place) + core.latency(o)
            for register in o.writes:
                ready[register] = finish
        ends.append(max(ready.values(), default=0.0))
    return (ends[-1] - ends[ROUNDS // 2 - 1]) / (ROUNDS // 2)
