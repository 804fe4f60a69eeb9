"""How a search uses its device, so that a user learns of an idle one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.types import Spent
from kevolve_mcp import api

from .answers import NOTHING_SPENT


@dataclass(frozen=True)
class DeviceUse:
    """Shares of a search's wall time, 0 to 1. Where several kernels are judged at once, one may be
    checked while another is timed; idle is then a lower bound."""

    wall_s: float = 0.0
    """Seconds from the first ask to the last node."""
    timed: float = 0.0
    """Time under the device lock, including head-to-head timing and parameter search."""
    checked: float = 0.0
    """Time in which kernels were checked."""
    idle: float = 0.0
    """Time in which kernels waited and none was timed or checked: builds, starting processes,
    drawing inputs."""


NOTHING_USED = DeviceUse()


class UseMeter:
    """Measures one search. clock: seconds since any point."""

    def __init__(self, spent: Spent, clock: Callable[[], float] = time.monotonic) -> None:
        """Start measuring. spent: what the session had spent before the search."""
        self._clock, self._before = clock, spent
        self._began = self._changed = clock()
        self._in_flight = 0
        self._working_s = self._checked_s = 0.0

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Count a kernel as waiting for its verdict during the block."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def note(self, evaluated: api.Evaluated) -> None:
        """Add a verdict; one from the store used no device time."""
        if not evaluated.cached:
            self._checked_s += evaluated.evaluation.stage_seconds.get("verify", 0.0)

    def use(self, spent: Spent = NOTHING_SPENT) -> DeviceUse:
        """Return the use so far. spent: what the session has spent."""
        self._count(0)
        wall_s = self._changed - self._began
        timed_s = max(0.0, spent.device_seconds - self._before.device_seconds)
        if wall_s <= 0:
            return NOTHING_USED
        idle_s = max(0.0, self._working_s - timed_s - self._checked_s)
        shares = (min(1.0, part / wall_s) for part in (timed_s, self._checked_s, idle_s))
        return DeviceUse(round(wall_s, 1), *(round(share, 3) for share in shares))

    def _count(self, more: int) -> None:
        now = self._clock()
        if self._in_flight:
            self._working_s += now - self._changed
        self._changed, self._in_flight = now, self._in_flight + more
