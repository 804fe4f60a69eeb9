"""From a phrase and an object to what the wire carries: verdict first, short text, structure,
links."""

from __future__ import annotations

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent

from .phrase import Phrase
from .results import Reply


def answer(phrase: Phrase, reply: Reply, *, whole: str | None = None) -> CallToolResult:
    """`whole` replaces the phrase's text where the caller has chosen its size (max_tokens)."""
    content: list[ContentBlock] = [
        TextContent(type="text", text=whole if whole is not None else phrase.text)
    ]
    content += [
        ResourceLink(type="resource_link", uri=uri, name=name, mime_type=kind)
        for uri, name, kind in phrase.links
    ]
    return CallToolResult(content=content, structured_content=reply.model_dump(mode="json"))
