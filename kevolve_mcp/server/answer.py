"""From a phrase and an object to what the wire carries: verdict first, short text, structure,
links."""

from __future__ import annotations

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent

from .phrase import Phrase
from .results import Reply


def answer(phrase: Phrase, reply: Reply) -> CallToolResult:
    """Return a block for the verdict, one for what follows where something does, and one for what
    to do now, so that a reader takes what it needs and cuts nothing."""
    texts = (phrase.verdict, phrase.body, f"Next: {phrase.next}")
    content: list[ContentBlock] = [TextContent(type="text", text=text) for text in texts if text]
    content += [
        ResourceLink(type="resource_link", uri=uri, name=name, mime_type=kind)
        for uri, name, kind in phrase.links
    ]
    return CallToolResult(content=content, structured_content=reply.model_dump(mode="json"))
