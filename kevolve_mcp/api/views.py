"""Views of sessions, trees, nodes and evaluations as every surface shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kevolve_mcp.errors import UsageError

from .evaluations import Evaluation
from .nodes import Node
from .sessions import Session

Subject: TypeAlias = Literal["sessions", "tree", "node", "evaluation", "diff", "template"]
PIECE = 24_000  # characters of one answer, about 6,000 tokens


@dataclass(frozen=True)
class View:
    """A text for a person or a model, and the same as values."""

    kind: Subject
    heading: str
    """What is shown, in one line."""
    text: str
    next_cursor: int = 0
    """Where the rest begins, 0 at the end."""
    remaining: int = 0
    """The number of characters in the rest."""
    session: Session | None = None
    sessions: tuple[Session, ...] = ()
    nodes: tuple[Node, ...] = ()
    evaluation: Evaluation | None = None


def view(
    kind: Subject,
    heading: str,
    text: str,
    cursor: int,
    *,
    session: Session | None = None,
    sessions: tuple[Session, ...] = (),
    nodes: tuple[Node, ...] = (),
    evaluation: Evaluation | None = None,
) -> View:
    """Show as much of a text as fits one answer.

    Args:
        kind: What is shown.
        heading: The same in one line.
        text: The whole text.
        cursor: Where to begin, in characters.
        session: The value shown, as are `sessions`, `nodes` and `evaluation`.

    Raises:
        UsageError: The cursor is beyond the end.
    """
    shown = _piece(text, cursor)
    return View(
        kind,
        heading,
        *shown,
        session=session,
        sessions=sessions,
        nodes=nodes,
        evaluation=evaluation,
    )


def _piece(text: str, cursor: int) -> tuple[str, int, int]:
    """The part of the text from `cursor` on; where the rest begins and how many characters it has,
    0 at the end."""
    if cursor > len(text):
        raise UsageError(
            f"a cursor of {cursor} is beyond the end ({len(text)} characters)",
            "Begin with 0 and continue with the cursor from the last answer.",
        )
    part = text[cursor : cursor + PIECE]
    if cursor + len(part) < len(text) and (cut := part.rfind("\n")) > 0:
        part = part[: cut + 1]
    remaining = len(text) - cursor - len(part)
    # the rest of a line must not look like a line
    mark = "… " if cursor and text[cursor - 1] != "\n" else ""
    return mark + part.rstrip(), cursor + len(part) if remaining else 0, remaining
