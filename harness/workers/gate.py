"""The calls of a burst one by one: inputs and outputs change hands through memory that judge and worker both see, without a message for each.

The judge gives the inputs of a call when it holds the outputs of the one before, so that no call can be computed ahead.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from . import buffers

GIVEN, DONE = 0, 16  # places of the two counters, on lines of their own
SPINS = 1000  # looks before something else is attended to: some 50 us


def usable() -> bool:
    """Both sides look again and again, so each needs a core; and counters follow what they announce, as x86 keeps the order of stores."""
    return platform.machine() in ("x86_64", "AMD64") and len(os.sched_getaffinity(os.getpid())) > 1


class Gate:
    """given: calls whose inputs are there. done: 1 when the worker is ready for the first, one more for each call whose outputs are there. One
    more of each in the end: all outputs are handed over again, and one buffer for several calls shows.
    Either side can write both; a wrong one gives the worker inputs that are not there, or the judge outputs that are not."""

    def __init__(self, fd: int) -> None:
        self._counts = memoryview(buffers.shared(fd, buffers.ALIGN)).cast("I")

    def reset(self) -> None:
        self._counts[GIVEN] = self._counts[DONE] = 0

    def tell(self, place: int, number: int) -> None:
        """Raise a counter, GIVEN or DONE."""
        self._counts[place] = number

    def reached(self, place: int, number: int) -> bool:
        return self._counts[place] >= number

    def wait(self, place: int, number: int, attend: Callable[[], object]) -> None:
        """Until a counter has come to `number`. attend: called now and then meanwhile; what it raises ends the wait."""
        spins = 0
        while not self.reached(place, number):
            spins += 1
            if not spins % SPINS:
                attend()
