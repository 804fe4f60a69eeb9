"""A session's goal, its budget, and what it has spent of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

GoalKind = Literal["speedup", "latency_us", "roofline", "best"]


@dataclass(frozen=True)
class Goal:
    """When a session has succeeded. speedup: F reaches `value`. latency_us: the weighted mean
    latency falls to `value`. roofline: the achieved fraction of the measured ceiling reaches
    `value` in every case. best: no threshold; the budget or a stall ends the session."""

    kind: GoalKind = "best"
    value: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Parse "best", "speedup:2", "latency_us:50" or "roofline:0.8". Raises ValueError naming
        what is accepted."""
        kind, _, number = text.strip().lower().partition(":")
        accepted = "accepted: best, speedup:2, latency_us:50, roofline:0.8"
        if kind == "best" and not number:
            return cls()
        if kind not in ("speedup", "latency_us", "roofline"):
            raise ValueError(f"unknown goal {text!r}; {accepted}")
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"goal {text!r} needs a number after the colon; {accepted}") from None
        if not 0 < value < float("inf") or (kind == "roofline" and value > 1):
            raise ValueError(f"goal {text!r}: the number is out of range; {accepted}")
        return cls(kind, value)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return "best" if self.kind == "best" else f"{self.kind}:{self.value:g}"


@dataclass(frozen=True)
class Budget:
    """Limits; None means unlimited. seconds: wall clock since the session opened; device_seconds:
    time under the device lock."""

    evaluations: int | None = None
    seconds: float | None = None
    device_seconds: float | None = None
    tokens: int | None = None
    usd: float | None = None

    def exceeded(self, spent: Spent) -> str | None:
        """Return the name of the first limit that is used up, or None."""
        for f in fields(self):
            limit = getattr(self, f.name)
            if limit is not None and getattr(spent, f.name) >= limit:
                return f.name
        return None

    def seconds_left(self, spent: Spent) -> float:
        """Return the seconds left under the tighter time limit; infinite without one."""
        limits = ((self.seconds, spent.seconds), (self.device_seconds, spent.device_seconds))
        return min((limit - used for limit, used in limits if limit is not None), default=math.inf)


@dataclass(frozen=True)
class Spent:
    """What a session has used so far, in the units of Budget."""

    evaluations: int = 0
    seconds: float = 0.0
    device_seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
