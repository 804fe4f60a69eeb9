"""Which checking sets of a case go in one burst: a burst takes a millisecond besides its calls."""

from __future__ import annotations

import secrets

from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..tasks.input_families import UNEVEN

MOST_SETS, MOST_INPUT_BYTES = 8, 32 << 20  # of one burst
# families whose results differ from set to set and must be right
VARIED = ("dense", "scaled", "small", "shifted", "negative", "spike", *UNEVEN)


def most_sets(pool: CasePool, held_calls: int) -> int:
    """Return how many sets are checked in one burst, of which as many outputs can be held: there is
    room for half as many calls again. A device's window has room for two sets."""
    if pool.shared:
        return 2
    fitting = MOST_INPUT_BYTES // max(1, pool.input_bytes)
    return max(2, min(MOST_SETS, fitting, 2 * held_calls // 3))


def divide(sets: list[InputSet], most: int) -> list[list[InputSet]]:
    """Divide the sets of one state into those of a burst each: the first two, then those whose
    results vary from set to set, then the others."""
    varied = [input_set for input_set in sets[2:] if input_set.family in VARIED]
    others = [input_set for input_set in sets[2:] if input_set.family not in VARIED]
    return [sets[:2]] + [
        part[start : start + most]
        for part in (varied, others)
        for start in range(0, len(part), most)
    ]


def longer(batches: list[list[InputSet]]) -> list[list[InputSet]]:
    """Return the batches that are checked in longer bursts: the first one, and one of the others
    whose results vary from set to set."""
    others = [
        batch for batch in batches[1:] if all(input_set.family in VARIED for input_set in batch)
    ]
    return batches[:1] + ([secrets.choice(others)] if others else [])
