"""The parents of a submitted kernel: those that were named, those of its ask, or the most similar
node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.types import Candidate
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound
from kevolve_mcp.search import ROOT, Ask, Node, Role, Tree
from kevolve_mcp.store import Store
from kevolve_mcp.synthesis.likeness import Likeness, nearest

from .job import SubmitParameters
from .types import SubmitRequest


@dataclass(frozen=True)
class Descent:
    """The parents of a kernel. likeness: to the most similar earlier node, where texts were
    compared because no parent was named."""

    parents: tuple[str, ...]
    role: Role
    likeness: Likeness | None = None


def named(request: SubmitRequest, ask: Ask | None) -> tuple[tuple[str, ...], bool]:
    """Return the parents without the root, and whether none were given at all."""
    if request.parents:
        return tuple(p for p in dict.fromkeys(request.parents) if p != ROOT), False
    return (ask.parents, False) if ask else ((), True)


def check(store: Store, session: str, parents: tuple[str, ...]) -> None:
    """Check that parents are nodes of the session. Raises NotFound."""
    for parent in parents:
        if not (parent[:1] == "n" and parent[1:].isdigit()):
            raise NotFound(
                f"{parent!r} is not a node id",
                'Node ids look like "n3".',
                Action("view", "lists them", session=session),
            )
        store.nodes.get(session, parent)


def find(
    store: Store,
    tree: Tree,
    p: SubmitParameters,
    ask: Ask | None,
    candidate: Candidate,
    structure: str,
    params: dict[str, Any],
) -> Descent:
    """Return the parents that were named. Without any: those of the same text submitted before; the
    best node of the same structure, for a text that differs only in PARAMS; the node with the most
    similar text, if it is similar enough. A start comes from elsewhere and is only compared by
    structure."""
    parents = p.parents
    if parents:
        return Descent(parents, ask.role if ask else "improve")
    others = list(tree.nodes)
    again = next(
        (n for n in others if n.candidate == candidate.digest and n.ask is None and ask is None),
        None,
    )
    if again is not None:
        return Descent(
            again.parents,
            again.role,
            _likeness(store, candidate, [n for n in others if n.seq < again.seq]),
        )
    others = [n for n in others if n.candidate != candidate.digest]
    family = [n for n in others if n.structure == structure] if structure and params else []
    if family:
        best = tree.ranked(family)[0]
        return Descent((best.id,), ask.role if ask else "tune", _likeness(store, candidate, [best]))
    if p.root_named or (ask is not None and ask.role == "start"):
        return Descent((), ask.role if ask else "draft")
    likeness = _likeness(store, candidate, others)
    if likeness is None or not likeness.enough:
        return Descent((), ask.role if ask else "draft", likeness)
    failed = next(n.failed for n in others if n.id == likeness.node)
    return Descent(
        (likeness.node,), ask.role if ask else "repair" if failed else "improve", likeness
    )


def _likeness(store: Store, candidate: Candidate, nodes: list[Node]) -> Likeness | None:
    return nearest(
        candidate.source, ((n.id, store.candidates.get(n.candidate).source) for n in nodes)
    )
