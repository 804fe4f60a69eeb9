"""Targets: where a candidate runs, as users name them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_HOST = "cpu"
_USUAL_LANGUAGES = {_HOST: "cpp", "cuda": "triton", "hip": "triton"}
Mode = Literal["execute", "verify", "compile", "absent"]
# a ratio nearer to 1 than this counts as no difference: two timings of one kernel differ as much
_MARGINS = {_HOST: 1.02, "cuda": 1.01}
_PATTERN = re.compile(r"^(cpu|cuda|hip)(?::([a-z0-9_]+))?$")


@dataclass(frozen=True)
class Target:
    """`family[:arch]`, for example cpu, cuda, cuda:sm_90, hip:gfx942."""

    family: str
    arch: str | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse a target's name. Raises ValueError naming what is accepted."""
        match = _PATTERN.match(text.strip().lower())
        if not match:
            raise ValueError(
                f"unknown target {text!r}; accepted: cpu, cuda, cuda:sm_90, hip:gfx942 and the like"
            )
        return cls(match.group(1), match.group(2))

    @property
    def on_host(self) -> bool:
        """Whether the target is the machine's own processor, not a device with separate memory."""
        return self.family == _HOST

    @property
    def usual_language(self) -> str:
        """The language of its candidates unless the user names another."""
        return _USUAL_LANGUAGES[self.family]

    @property
    def margin(self) -> float:
        """The margin of timing verdicts on it; the widest for a family that cannot be timed yet."""
        return _MARGINS.get(self.family, max(_MARGINS.values()))

    def __str__(self) -> str:
        return f"{self.family}:{self.arch}" if self.arch else self.family


@dataclass(frozen=True)
class TargetReport:
    """What this machine can do for one target, and the reason for what it cannot."""

    target: str
    mode: Mode
    reason: str
    languages: tuple[str, ...] = ()
    profilers: tuple[str, ...] = ()
