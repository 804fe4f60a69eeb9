"""From a phrase and an object to what the wire carries: verdict first, short text, structure,
links."""

from __future__ import annotations

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent

from harness.types import from_json
from kevolve_mcp import api

from .phrase import Phrase
from .results import ToolReply
from .wording.figures import left_in_words


def answer(phrase: Phrase, reply: ToolReply) -> CallToolResult:
    """Return a block for the verdict, one for what follows where something does, and one for what
    to do now and what is left of the session, so that a reader takes what it needs and cuts
    nothing."""
    following = f"Next: {phrase.next}"
    if reply.left is not None:
        following += f"\nLeft: {left_in_words(from_json(api.Left, reply.left))}"
    texts = (phrase.verdict, phrase.body, following)
    content: list[ContentBlock] = [TextContent(type="text", text=text) for text in texts if text]
    content += [
        ResourceLink(type="resource_link", uri=uri, name=name, mime_type=kind)
        for uri, name, kind in phrase.links
    ]
    return CallToolResult(content=content, structured_content=reply.model_dump(mode="json"))
