"""What a tool says: its verdict first, then lines, then the call to make now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_CHARACTERS = 36_000  # about 9,000 tokens; clients warn at 10,000


@dataclass(frozen=True)
class Phrase:
    """verdict: the first line. lines: what follows. next: the call to make now. links: (uri, name,
    media type)."""

    verdict: str
    next: str
    lines: Sequence[str] = ()
    links: Sequence[tuple[str, str, str]] = field(default_factory=tuple)

    @property
    def text(self) -> str:
        body = "\n".join([self.verdict, *self.lines])
        tail = f"\nNext: {self.next}" if self.next else ""
        if len(body) + len(tail) <= MAX_CHARACTERS:
            return body + tail
        notice = "\n[cut here: the rest is in tree_view, or in the linked resource]"
        return body[: MAX_CHARACTERS - len(tail) - len(notice)] + notice + tail
