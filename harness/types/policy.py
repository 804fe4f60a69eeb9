"""What a session permits and requires of its candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .environment import ISOLATION_LEVELS, IsolationLevel


@dataclass(frozen=True)
class Policy:
    """The rules of a session.

    library_calls: what happens to a candidate that lets the framework compute ("flag": F = 0 until
    reviewed). isolation: the weakest level under which candidates may run; evaluation is refused
    below it. tolerance: "default", or "bitwise" to require equality with the framework. review:
    exports wait for a person's approval.
    """

    library_calls: Literal["flag", "allow", "reject"] = "flag"
    isolation: IsolationLevel = "landlock"
    tolerance: Literal["default", "bitwise"] = "default"
    review: bool = False
    memory_gib: float | None = None
    """The limit on a candidate's memory while it is timed, for host memory and for device memory
    each; None for no limit."""

    def __post_init__(self) -> None:
        if self.memory_gib is not None and not 0 < self.memory_gib < math.inf:
            raise ValueError(
                f"memory_gib must be positive and finite, not {self.memory_gib:g}; None is no limit"
            )

    def permits(self, level: IsolationLevel) -> bool:
        """Return whether a measured isolation level is at least the required one."""
        return ISOLATION_LEVELS.index(level) <= ISOLATION_LEVELS.index(self.isolation)

    def __str__(self) -> str:
        memory = "" if self.memory_gib is None else f",memory_gib={self.memory_gib:g}"
        return (
            f"library_calls={self.library_calls},isolation={self.isolation},"
            f"tolerance={self.tolerance}{memory}"
        )
