"""Which of a session's nodes is confirmed first: those that may be the best are timed against each
other in the same rounds.

Figures over a baseline that were measured minutes apart cannot tell close nodes apart, and the
highest of many medians is the luckiest one. So the node that ranks first, by its head-to-head
results in the search and its lower bound, keeps its place unless another one is certainly faster.
Nodes that lost to it in the search, or were found equal, are not timed against it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import ComparisonRequest, HeadToHead, Task
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.search import Node, meeting, undominated
from kevolve_mcp.store import NodeDuel, SessionRecord

from . import comparing, evaluating
from .shared import Shared

CONTENDERS = 4


@dataclass(frozen=True)
class Contest:
    """The result of a contest. order: all nodes, the one to confirm first at the front. duels: that
    one against the other contenders. note: why there are no duels although there were contenders,
    "" otherwise."""

    order: tuple[Node, ...]
    duels: tuple[NodeDuel, ...] = ()
    note: str = ""


async def hold(
    shared: Shared, record: SessionRecord, task: Task, nodes: tuple[Node, ...], progress: Progress
) -> Contest:
    """Time the nodes that no other dominates, if there are several; it costs no budget. nodes: best
    first."""
    some, equal = contenders(nodes), equals(nodes)
    known = (
        f"Equal to {nodes[0].id} head-to-head in the search, and not timed again: "
        f"{', '.join(n.id for n in equal)}."
        if equal
        else ""
    )
    if len(some) < 2:
        return Contest(nodes, note=known)
    store = await shared.store()
    candidates = [await shared.thread(store.candidates.get, node.candidate) for node in some]
    names = ", ".join(node.id for node in some)
    progress(ProgressEvent("contest", f"timing {names} against each other", 0.0))
    task, executor = evaluating.place(shared, record, task)
    request = ComparisonRequest(tuple(candidates), record.policy)
    try:
        comparison, _ = await evaluating.compared(
            shared, task, request, record.target, executor, None, progress
        )
    except (EvaluatorUnavailable, TaskRefused, Unavailable) as error:
        return Contest(
            nodes,
            note=_joined(
                known,
                f"{names} could not be timed against each other ({error.message}): their lower "
                "bounds decided.",
            ),
        )
    first = winner(comparison)
    order = (some[first], *(node for node in nodes if node.id != some[first].id))
    labels = tuple(node.id for node in some)
    duels = [comparison.duel(first, other) for other in range(len(some)) if other != first]
    shown = tuple(comparing.named(duel, labels) for duel in duels if duel is not None)
    out = [
        f"{node.id} ({e.status})"
        for node, e in zip(some, comparison.evaluations, strict=True)
        if e.status != "correct"
    ]
    untimed = f"Not timed head-to-head: {', '.join(out)}." if out else ""
    return Contest(order, shown, _joined(known, untimed))


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def contenders(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return those of `nodes` (best first) that may be the best by their intervals and head-to-head
    results in the search, each text once."""
    equal = {node.id for node in equals(nodes)}
    some = [node for node in undominated(nodes) if node.id not in equal]
    return tuple({node.candidate: node for node in reversed(some)}.values())[::-1][:CONTENDERS]


def equals(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes that the search found equal to the first: none of them takes its place."""
    return tuple(
        node
        for node in nodes[1:]
        if (met := meeting(node, nodes[0])) is not None and met.verdict == "equivalent"
    )


def winner(comparison: HeadToHead) -> int:
    """Return the first candidate, unless others are certainly faster: then the one of them with the
    highest lower bound of the ratio."""
    first = next((n for n, e in enumerate(comparison.evaluations) if e.status == "correct"), 0)
    over = [
        (duel.interval[0], n)
        for n in range(len(comparison.evaluations))
        if (duel := comparison.duel(n, first)) and duel.verdict == "faster"
    ]
    return max(over)[1] if over else first
