"""Outputs of earlier turns that a worker still holds and that must stay unchanged. A candidate that
returns the same few buffers in rotation is right only as long as no caller keeps a result."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...workers import gate

# The most outputs held at once, and their bytes on a CPU; at least one is held. The next large
# output may not fit where an earlier one was, and then takes fresh pages: with 4 of 8 MiB, this
# happened in 5 of 90 turns.
MOST_HELD, HELD_BYTES = 4, 16 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """Calls of a turn whose outputs are kept. place: the index among the kept outputs at which they
    are stored, in place of earlier ones or after the last."""

    place: int
    calls: Sequence[int]

    @property
    def word(self) -> int:
        """The number that goes with FORGET."""
        return self.place << gate.CALL_BITS | sum(1 << call for call in self.calls)


class OutputReservoir(Generic[T]):
    """A random sample of the outputs of all turns so far, each turn equally likely; outputs are
    selected only after they exist. The full number is held from the first turn on, so that the
    worker's heap does not grow later. T: what the judge keeps of one call. most_bytes: of all
    together."""

    def __init__(self, each_bytes: int, most_bytes: int = HELD_BYTES) -> None:
        self._room = max(1, min(MOST_HELD, most_bytes // max(1, each_bytes)))
        self.most_bytes = self._room * each_bytes
        self._copies: list[T] = []
        self._turns = 0

    def draw(self, calls: range) -> Selection | None:
        """Select the calls to keep of a turn that has just ended, if any."""
        self._turns += 1
        free = self._room - len(self._copies)
        if free:
            return Selection(len(self._copies), random.sample(calls, min(free, len(calls))))
        if random.random() * self._turns < self._room:
            return Selection(random.randrange(self._room), [random.choice(calls)])
        return None

    def put(self, selection: Selection, copies: list[T]) -> list[T]:
        """Store the copies of a selection, and return those that they replace."""
        replaced = self._copies[selection.place : selection.place + len(copies)]
        self._copies[selection.place : selection.place + len(copies)] = copies
        return replaced

    def all_are(self, intact: Callable[[T], bool]) -> bool:
        """Return whether `intact` is true for every copy."""
        return all(intact(copy) for copy in self._copies)
