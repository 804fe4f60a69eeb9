"""Which asks an agent followed, as far as the tree shows. Pure.

An ask is answered when a node names it, or was made from exactly its parents before the next ask.
It is followed when what it wanted was done, too, by role: a start was handed in as it is or nearly
so; a draft has no more than half of its lines from any earlier node; an improvement and a repair
have at least half of their lines from a parent, except that an improvement of a start may be a new
design, as the ask says; a crossover a quarter from each; a tuned kernel differs from its parent in
PARAMS alone. What cannot be told (a text that is not kept, or too short)
counts as done. Whether it then was faster is another question, and another figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kevolve_mcp.search.node import Node
from kevolve_mcp.search.tree import Ask, Tree
from kevolve_mcp.synthesis.likeness import LIKE, Likeness, nearest

from .transcript import Call

Source = Callable[[Node], str]


@dataclass(frozen=True)
class Followed:
    """answered_by: a node's id, "" without one. followed: see above. improved: the answer is
    correct and faster than each of its parents, by the medians; None for a start and without
    parents."""

    ask: str
    role: str
    parents: tuple[str, ...]
    answered_by: str = ""
    followed: bool = False
    improved: bool | None = None


def given(calls: Sequence[Call]) -> tuple[str, ...]:
    """The asks that the agent was shown, in order."""
    shown = [
        ask["context"]["id"]
        for call in calls
        if call.tool == "session_next"
        for ask in call.data.get("asks") or ()
    ]
    return tuple(dict.fromkeys(shown))


def followed(tree: Tree, shown: Sequence[str], source: Source, start: str = "") -> list[Followed]:
    """shown: ids of asks. start: the text of the starting kernel beside the task."""
    asks = [ask for ask in tree.asks if ask.id in shown]
    found = []
    for ask, after in zip(asks, [*asks[1:], None], strict=True):
        node = _answer(tree, ask, after)
        if node is None:
            found.append(Followed(ask.id, ask.role, ask.parents))
            continue
        done = _done(tree, ask, node, source, start)
        improved = _improved(tree, ask, node)
        found.append(Followed(ask.id, ask.role, ask.parents, node.id, done, improved))
    return found


def left_open(tree: Tree, rows: Sequence[Followed]) -> bool:
    """Whether nothing was handed in after the last ask: the search ended there."""
    if not rows or rows[-1].answered_by:
        return False
    last = next(ask for ask in tree.asks if ask.id == rows[-1].ask)
    return all(node.created < last.created for node in tree.nodes)


def _answer(tree: Tree, ask: Ask, after: Ask | None) -> Node | None:
    named = [n for n in tree.nodes if n.ask == ask.seq]
    until = after.created if after else float("inf")
    alike = [
        n
        for n in tree.nodes
        if n.ask is None
        and ask.parents
        and set(n.parents) == set(ask.parents)
        and ask.created <= n.created < until
    ]
    return next(iter([*named, *alike]), None)


def _done(tree: Tree, ask: Ask, node: Node, source: Source, start: str) -> bool:
    parents = [tree.by_id[p] for p in ask.parents if p in tree.by_id]
    own = source(node)
    if ask.role == "start":
        return not start or node.origin is not None or _enough(own, [start], missing=True)
    if ask.role == "draft":
        earlier = [source(n) for n in tree.nodes if n.seq < node.seq]
        return not _enough(own, earlier, missing=False)
    if ask.role == "tune":
        return any(node.family == p.family and node.candidate != p.candidate for p in parents)
    if ask.role == "crossover":
        return all(_enough(own, [source(p)], missing=True, share=LIKE / 2) for p in parents)
    if ask.role == "improve" and any(_is_plain_start(tree, p) for p in parents):
        return all(node.candidate != p.candidate for p in parents)
    return _enough(own, [source(p) for p in parents], missing=True)


def _is_plain_start(tree: Tree, node: Node) -> bool:
    """Whether a node is a start, perhaps with other parameters."""
    return any(member.origin is not None for member in tree.families[node.family])


def _enough(own: str, others: list[str], *, missing: bool, share: float = LIKE) -> bool:
    """Whether one of them holds so much of a text. missing: the answer where that is not known."""
    found: Likeness | None = nearest(own, [("", text) for text in others if text]) if own else None
    return missing if found is None else found.share >= share


def _improved(tree: Tree, ask: Ask, node: Node) -> bool | None:
    parents = [tree.by_id[p] for p in ask.parents if p in tree.by_id]
    if ask.role == "start" or not parents:
        return None
    return not node.failed and all(node.score > parent.score for parent in parents)
