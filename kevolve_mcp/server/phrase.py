"""What a tool says: its verdict first, then lines, then what may be done now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kevolve_mcp.actions import Action, sentences

from .calls import call

MAX_CHARACTERS = 36_000  # about 9,000 tokens; clients warn at 10,000
_CUT = "\n[cut here: the rest is in tree_view, or in the linked resource]"


@dataclass(frozen=True)
class Phrase:
    """An answer in words."""

    verdict: str
    """The first line."""
    lines: Sequence[str] = ()
    """What follows."""
    actions: tuple[Action, ...] = ()
    """What may be done now, the usual thing first."""
    advice: str = ""
    """What is to be done before, where no call does it."""
    links: Sequence[tuple[str, str, str]] = ()
    """(uri, name, media type)."""
    whole: bool = False
    """Whether the caller has chosen the size, so that nothing is cut."""

    @property
    def next(self) -> str:
        """Name the calls to make now, "none" where there is nothing to do."""
        return "; ".join(filter(None, (self.advice, sentences(self.actions, call)))) or "none"

    @property
    def body(self) -> str:
        """Join the lines, cut so that the whole stays readable."""
        text = "\n".join(self.lines)
        room = MAX_CHARACTERS - len(self.verdict) - len(self.next)
        return text if self.whole or len(text) <= room else text[: room - len(_CUT)] + _CUT
