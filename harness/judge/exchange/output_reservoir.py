"""Outputs of earlier turns that a worker still holds, and which have to stay what they were: who
hands the same few buffers out in turn is right as long as nobody keeps a result for longer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...workers import gate

# Outputs that are held at once, of so many bytes together on a CPU; one in any case. Where a large
# one lay, glibc's next may not fit, and takes fresh pages: of 90 turns with 4 of 8 MiB, 5 did.
MOST_HELD, HELD_BYTES = 4, 16 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """Calls of a turn whose outputs are held on to. place: of the first among those held before,
    where it takes the place of another one, or comes after the last."""

    place: int
    calls: Sequence[int]

    @property
    def word(self) -> int:
        """The number that goes with FORGET."""
        return self.place << gate.CALL_BITS | sum(1 << call for call in self.calls)


class OutputReservoir(Generic[T]):
    """A few outputs of all turns so far, each turn as likely: which of them will be looked at again
    is drawn when they are there. As many are held from the first turn on, so that the worker's heap
    does not grow later. T: what the judge keeps of one. most_bytes: of all together."""

    def __init__(self, each_bytes: int, most_bytes: int = HELD_BYTES) -> None:
        self._room = max(1, min(MOST_HELD, most_bytes // max(1, each_bytes)))
        self.most_bytes = self._room * each_bytes
        self._copies: list[T] = []
        self._turns = 0

    def draw(self, calls: range) -> Selection | None:
        """Of a turn that has just ended: which of its calls are held on to, if any."""
        self._turns += 1
        free = self._room - len(self._copies)
        if free:
            return Selection(len(self._copies), random.sample(calls, min(free, len(calls))))
        if random.random() * self._turns < self._room:
            return Selection(random.randrange(self._room), [random.choice(calls)])
        return None

    def put(self, selection: Selection, copies: list[T]) -> list[T]:
        """Take what the judge keeps of these, and return those whose places they take."""
        replaced = self._copies[selection.place : selection.place + len(copies)]
        self._copies[selection.place : selection.place + len(copies)] = copies
        return replaced

    def all_are(self, intact: Callable[[T], bool]) -> bool:
        """Whether it is so of each one that is held."""
        return all(intact(copy) for copy in self._copies)
