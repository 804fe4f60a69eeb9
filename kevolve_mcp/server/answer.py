"""From a phrase and an object to what the wire carries: verdict first, short text, structure, links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent

from .results import Reply

MAX_CHARACTERS = 36_000  # about 9,000 tokens; clients warn at 10,000


@dataclass(frozen=True)
class Phrase:
    """verdict: the first line. lines: what follows. next: the call to make now. links: (uri, name, media type)."""

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


def answer(phrase: Phrase, reply: Reply, *, whole: str | None = None) -> CallToolResult:
    """`whole` replaces the phrase's text where the caller has chosen its size (max_tokens)."""
    content: list[ContentBlock] = [TextContent(type="text", text=whole if whole is not None else phrase.text)]
    content += [ResourceLink(type="resource_link", uri=uri, name=name, mime_type=kind) for uri, name, kind in phrase.links]
    return CallToolResult(content=content, structured_content=reply.model_dump(mode="json"))
