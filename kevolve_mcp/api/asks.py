"""What to write next, as every surface shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.types import to_json
from kevolve_mcp.search import Ask as Domain
from kevolve_mcp.search import Tree
from kevolve_mcp.synthesis.ask import AskContext

from .sessions import Session


@dataclass(frozen=True)
class Ask:
    """One request for a next candidate."""

    context: AskContext
    """What authors get as data, its `text` the universal operator's context."""
    knowledge: tuple[str, ...] = ()
    """Ids of pages worth reading."""
    answered_by: str = ""
    """The node that answered it, "" while it is open."""
    lease_until: float = 0.0
    """Seconds of the epoch after which it may be given to somebody else."""
    repeated: bool = False
    """Whether it was open already."""

    def as_json(self) -> dict[str, Any]:
        """Return it as structured content, the context without its text: that is the answer's
        own."""
        data: dict[str, Any] = to_json(self)
        data["context"] = self.context.as_json()
        return data


@dataclass(frozen=True)
class AskBatch:
    """What to write next, or why the search should stop."""

    session: Session
    asks: tuple[Ask, ...] = ()
    """None where it has ended."""
    ended: str = ""
    """Why the search should stop, "" while it goes on."""
    ended_detail: str = ""
    """The same in a sentence."""


def ask(tree: Tree, found: Domain, context: AskContext, knowledge: tuple[str, ...]) -> Ask:
    """Show an ask.

    Args:
        tree: As it stands; its nodes say whether the ask is answered.
        found: The domain's value.
        context: What was composed for its author.
        knowledge: Ids of the pages that were chosen for it.
    """
    answers = [n.id for n in tree.nodes if n.ask == found.seq]
    return Ask(context, knowledge, ", ".join(answers), found.lease_until)
