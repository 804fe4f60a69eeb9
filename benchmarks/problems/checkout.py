"""The problems of a checkout, and their own code as candidates. Nothing of them is kept here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LEVELS = (1, 2, 3)
_NUMBER = re.compile(r"^(\d+)_")
_CANDIDATE = "\n\n\nclass ModelNew(Model):\n    pass\n"
# Equal is compared with equal where an identity is timed: what torch.compile makes of a problem is
# another program.
_EAGER_ONLY = "\n\n\nModel.forward = torch.compiler.disable(Model.forward)\n"


@dataclass(frozen=True)
class Problem:
    """One file of a checkout. name: "1/19", level and number."""

    level: int
    number: int
    path: Path

    @property
    def name(self) -> str:
        return f"{self.level}/{self.number}"

    @cached_property
    def source(self) -> str:
        return self.path.read_text()

    @property
    def eager_only(self) -> str:
        """The text with a model that torch.compile leaves alone."""
        return self.source + _EAGER_ONLY


def candidate(source: str) -> str:
    """A task's text as a candidate: its model, called ModelNew."""
    return source + _CANDIDATE


def problems(folder: Path, levels: Sequence[int] = LEVELS) -> list[Problem]:
    """Those of a checkout's levels, by number. Raises ValueError where there are none."""
    root = folder / "KernelBench" if (folder / "KernelBench").is_dir() else folder
    found = [
        Problem(level, int(match.group(1)), path)
        for level in levels
        for path in (root / f"level{level}").glob("*.py")
        if (match := _NUMBER.match(path.name))
    ]
    if not found:
        wanted = ", ".join(f"level{level}" for level in levels)
        raise ValueError(
            f"{folder} holds no problems of {wanted}: name a checkout of KernelBench "
            "(KernelBench/level1/1_*.py …)"
        )
    return sorted(found, key=lambda p: (p.level, p.number))


def shuffled(found: Sequence[Problem]) -> list[Problem]:
    """In an order that is the same in every sitting, and no order of anything."""
    return sorted(found, key=lambda p: hashlib.sha256(p.name.encode()).digest())
