"""What a tool answers: a phrase in words, and the same as structured content, whose shapes are
small, shared and stable. Inner objects are the dataclasses of `kevolve_mcp.api`.

Every answer has `verdict` (its first line), `next` (the calls to make now) and `actions` (the same
as values); one about an open session that has a budget says what is `left` of it (api.Left). A slow
tool adds `state` and `job_id`.
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


Obj = dict[str, Any]


class ToolReply(BaseModel):
    verdict: str
    next: str
    actions: list[Obj] = []
    left: Obj | None = None


def said(phrase: Phrase, left: api.Left | None = None) -> dict[str, Any]:
    """Return the fields of every answer. left: of the open session that it is about."""
    return {
        "verdict": phrase.verdict,
        "next": phrase.next,
        "actions": [action.as_json() for action in phrase.actions],
        "left": None if left is None else asdict(left),
    }


def left_of(session: api.Session | None) -> api.Left | None:
    """Return what a session has left, None of one that is over."""
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
    """session: api.Session; joined: an equal session was open already."""

    session: Obj | None = None
    joined: bool = False


class AsksReply(ToolReply):
    """asks: api.Ask each, `context` as AskContext.parse reads it (its text is the content); ended:
    why to stop, "" to go on; ended_detail: the same in a sentence."""

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
    """hits: of a search, of `total` in all; note: what of the search was not understood; fits:
    false when there is no page on this; page_id and next_cursor: of a page, whose text is the
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
    """kind: what the job does; result: as the tool that started it would have answered; jobs: when
    nothing was named."""

    kind: str = ""
    result: Obj | None = None
    jobs: list[Obj] = []


def answer(phrase: Phrase, reply: ToolReply) -> CallToolResult:
    """Return a block for the verdict, one for what follows where something does, and one for what
    to do now and what is left of the session, so that a reader takes what it needs and cuts
    nothing."""
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
