"""What a tool answers: a phrase in words, and the same as structured content, whose shapes are
small, shared and stable. Inner objects are the dataclasses of `kevolve_mcp.api`.

Every answer has `verdict` (its first line), `next` (the calls to make now) and `actions` (the same
as values). An answer about an open session with a budget has `left`, what remains of it (api.Left).
A slow tool adds `state` and `job_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from kevolve_mcp.actions import Action, sentences

from .calls import call

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

    from kevolve_mcp import api


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
    """What may be done now, the usual action first."""
    advice: str = ""
    """What to do first, where no call does it."""
    links: Sequence[tuple[str, str, str]] = ()
    """(uri, name, media type)."""
    whole: bool = False
    """Whether the caller chose the size, so that nothing is cut."""

    @property
    def next(self) -> str:
        """Return the calls to make now, "none" where there is nothing to do."""
        return "; ".join(filter(None, (self.advice, sentences(self.actions, call)))) or "none"

    @property
    def body(self) -> str:
        """Return the lines as one text, cut to MAX_CHARACTERS."""
        text = "\n".join(self.lines)
        room = MAX_CHARACTERS - len(self.verdict) - len(self.next)
        return text if self.whole or len(text) <= room else text[: room - len(_CUT)] + _CUT


Obj = dict[str, Any]


class ToolReply(BaseModel):
    verdict: str
    next: str
    actions: list[Obj] = []
    left: Obj | None = None


def said(phrase: Phrase, left: api.Left | None = None) -> dict[str, Any]:
    """Return the fields that every answer has. left: what remains of the session's budget."""
    return {
        "verdict": phrase.verdict,
        "next": phrase.next,
        "actions": [action.as_json() for action in phrase.actions],
        "left": None if left is None else asdict(left),
    }


def left_of(session: api.Session | None) -> api.Left | None:
    """Return what remains of a session's budget, None for an ended session."""
    if session is None or session.state != "open":
        return None
    from kevolve_mcp import api

    return api.left(session.budget, session.spent)


class JobReply(ToolReply):
    """state "running": call job_wait(job_id) again; the other fields are then null."""

    state: Literal["running", "done", "failed", "cancelled", "lost"] = "done"
    job_id: str = ""
    session_id: str = ""
    eta_s: float | None = None


class MachineReply(ToolReply):
    """machine: api.Machine."""

    machine: Obj


class SessionReply(JobReply):
    """session: api.Session; joined: an equal session was already open."""

    session: Obj | None = None
    joined: bool = False


class AsksReply(ToolReply):
    """asks: api.Ask objects, `context` as AskContext.parse reads it (its text is the content);
    ended: why the search ended, "" while it goes on; ended_detail: the same as a sentence."""

    session: Obj
    asks: list[Obj]
    ended: str = ""
    ended_detail: str = ""


class EvaluationReply(JobReply):
    """result: Evaluated (evaluation, node, best, new_best, cached …) or Compared."""

    node_id: str = ""
    evaluation_id: str = ""
    status: str = ""
    fitness: float | None = None
    result: Obj | None = None


class FinishReply(JobReply):
    """result: Finished (package, node, confirmed, measured, skills …)."""

    package: str = ""
    fitness: float | None = None
    result: Obj | None = None


class ViewReply(ToolReply):
    """kind: sessions, tree, node, evaluation, diff or template; data: what the text shows, as
    objects."""

    kind: str
    data: Obj
    next_cursor: int = 0


class KnowledgeReply(ToolReply):
    """hits: of a search, out of `total`; note: parts of the search that were not understood; fits:
    false when no page matches well; page_id and next_cursor: of a page, whose text is the
    content."""

    hits: list[Obj] = []
    note: str = ""
    fits: bool = True
    total: int = 0
    page_id: str = ""
    next_cursor: int | None = None


class SkillReply(ToolReply):
    """skill: api.Skill."""

    skill: Obj


class JobsReply(JobReply):
    """kind: what the job does; result: as the tool that started it answers; jobs: the list, when no
    id was given."""

    kind: str = ""
    result: Obj | None = None
    jobs: list[Obj] = []


def answer(phrase: Phrase, reply: ToolReply) -> CallToolResult:
    """Return an answer in blocks: the verdict, the details if there are any, and what to do next
    with what is left of the budget. A reader can then take the blocks it needs."""
    from mcp.types import CallToolResult, ResourceLink, TextContent

    from harness.types import from_json
    from kevolve_mcp import api

    from .wording.figures import left_in_words

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
