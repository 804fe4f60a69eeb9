"""Who writes kernels, and where those came from that nobody of a session wrote.

`str` of each is the text for people, the only one there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AuthorId:
    """Whoever answers asks. Equal values are one author, who has read what it was given."""

    name: str = ""
    """As its client calls it, "" where it has no name."""
    host: str = ""
    """Where the process runs that speaks for it (name, boot and pid namespace), "" for none."""
    pid: int = 0
    started: int = 0
    """Clock ticks since boot, so that a pid that is used again is another process."""

    def __str__(self) -> str:
        return self.name or "somebody"


NOBODY = AuthorId()
"""Holds the asks that are free."""
PARAMETER_SEARCH = AuthorId("parameter search")
"""Settings are tried under this name while an author thinks."""


@dataclass(frozen=True)
class Origin:
    """Where a start came from."""

    kind: Literal["user_file", "skill", "task"]
    name: str = ""
    """Of the skill or the similar task."""

    def __str__(self) -> str:
        return "user file" if self.kind == "user_file" else f"{self.kind}: {self.name}"


USER_FILE = Origin("user_file")


@dataclass(frozen=True)
class StartKernel:
    """The kernel that an ask of role "start" wants handed in."""

    candidate: str
    """Its digest."""
    origin: Origin
    note: str = ""


@dataclass(frozen=True)
class LentKernel:
    """A kernel of a similar task that an ask shows, as it was when it was chosen."""

    session: str
    node: str
    similarity: float
    """0 to 1."""
