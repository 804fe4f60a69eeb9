"""Who writes kernels, and where kernels came from that no author of the session wrote.

`str` of each value is the text for people, and its only text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AuthorId:
    """An author of answers to asks. Equal values are one author, who has read what it was given."""

    name: str = ""
    """Its client's name, "" without one."""
    host: str = ""
    """The machine of its process (name, boot and pid namespace), "" without a process."""
    pid: int = 0
    started: int = 0
    """The start of its process in clock ticks since boot, so that a reused pid is recognized."""

    def __str__(self) -> str:
        return self.name or "somebody"


NOBODY = AuthorId()
"""The holder of free asks."""
PARAMETER_SEARCH = AuthorId("parameter search")
"""The author of settings that are tried while authors write."""


@dataclass(frozen=True)
class Origin:
    """Where a start came from."""

    kind: Literal["user_file", "skill", "task"]
    name: str = ""
    """The name of the skill or the similar task."""

    def __str__(self) -> str:
        return "user file" if self.kind == "user_file" else f"{self.kind}: {self.name}"


USER_FILE = Origin("user_file")


@dataclass(frozen=True)
class StartKernel:
    """The kernel to submit for an ask of role "start"."""

    candidate: str
    """Its digest."""
    origin: Origin
    note: str = ""


@dataclass(frozen=True)
class LentKernel:
    """A kernel for a similar task that an ask shows, with its figures when it was chosen."""

    session: str
    node: str
    similarity: float
    """0 to 1."""
