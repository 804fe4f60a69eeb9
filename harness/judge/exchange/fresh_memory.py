"""Device memory that somebody takes from the driver beside a burst.

The driver clears memory that a process gives back, by a copy engine of its own: no process works
for that, so no witness sees it. Who gives memory back and takes it again has zeros for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

# Of one watch, of which a burst has three: page tables, and what an allocator takes by chance, are
# less.
USUAL_BYTES = 8 << 20
# What clearing is taken to cost: 2 us for a MiB, more than kernels need (0.3 us on an H100), so
# that many small pieces, each of which saves the launch of a kernel, are covered as well.
NS_PER_MIB = 2_000


class FreshMemory:
    """Adds up what the device's used memory grows by, reading after reading, in watches that follow
    each other: between two of them, while the judge's clock runs, only the difference is seen.
    read: returns the used bytes, 0 where it fails; None: nothing is seen. On an H100 a reading
    takes 10 us, and to give memory back or to take some 150 us."""

    def __init__(self, read: Callable[[], int] | None) -> None:
        self._read, self._taken, self._over = read, 0, threading.Event()
        self._last: int | None = None
        self._thread: threading.Thread | None = None

    def forget(self) -> None:
        """Begin anew: what was seen, and what happens until the next watch, does not count."""
        self._end()
        self._last, self._taken = None, 0

    def start(self) -> None:
        """Begin a watch, with a first reading."""
        if self._read is None:
            return
        self._end()
        over, read, now = threading.Event(), self._read, self._read()
        self._over = over
        self._note(now)

        def watch() -> None:
            while not over.is_set():
                self._note(read())

        self._thread = threading.Thread(target=watch, daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _note(self, now: int) -> None:
        if not now:  # this reading failed
            return
        self._taken += max(0, now - (now if self._last is None else self._last))
        self._last = now

    def stop(self) -> None:
        """End with the reading that runs now."""
        self._over.set()

    def cost_ns(self) -> int:
        """Return what clearing the memory would have cost that was taken, once it has ended."""
        self._end()
        taken, self._taken = self._taken, 0
        return max(0, taken - USUAL_BYTES) * NS_PER_MIB >> 20
