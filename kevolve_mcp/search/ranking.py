"""The one order of nodes: by what is known of them, and never by a median, of which the highest one
is a lucky one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from .node import Meeting, Node


def standings(nodes: Iterable[Node]) -> dict[str, float]:
    """What is known of each node, by id: that F is at least so much.

    It is the lower end of F's interval, or what is known of the one that it met in the same rounds
    times the lower end of their ratio, whichever says more, within F's interval. Where it did not
    win, no more than is known of that one, and less where it lost: the winner of a meeting stands
    above the loser, and who was not told apart from the best stays behind it.
    """
    assured: dict[str, float] = {}
    earlier: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda n: n.seq):
        value, met = node.assured, _met(node, earlier)
        if met is not None:
            base, (low, high) = assured[met.other], met.interval or (0.0, 1.0)
            # a chain of wins proves no more than was measured of the last
            most = max(node.span[1], math.nextafter(base, math.inf))
            value = max(value, min(base * low, most))
            if not met.won:
                value = min(value, base * min(high, 1.0))
        assured[node.id] = value
        earlier[node.id] = node
    return assured


def losses(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    """To whom each node lost in the same rounds, by id; those alone that lost."""
    winners: dict[str, tuple[str, ...]] = {}
    earlier: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda n: n.seq):
        met = _met(node, earlier)
        if met is not None and met.verdict in ("faster", "slower"):
            loser, winner = (met.other, node.id) if met.won else (node.id, met.other)
            winners[loser] = (*winners.get(loser, ()), winner)
        earlier[node.id] = node
    return winners


def _met(node: Node, earlier: Mapping[str, Node]) -> Meeting | None:
    """The meeting of a node that counts: with one that may win, and not set apart from it by what
    was measured since."""
    met = node.met
    other = earlier.get(met.other) if met is not None else None
    if met is None or other is None or met.verdict is None:
        return None
    return met if able(other) and not apart(node.span, other.span) else None


def able(node: Node) -> bool:
    """Whether a node may win: correct, timed, and without a regression in a protected case."""
    return node.eligible and node.score > 0


def champion(nodes: Iterable[Node]) -> Node | None:
    """The best of those that may win; None without one."""
    some = tuple(nodes)
    return first(some, standings(some))


def first(nodes: Iterable[Node], known: Mapping[str, float]) -> Node | None:
    """The `champion`, by what is known of the nodes."""
    return min(filter(able, nodes), key=lambda n: (-known[n.id], n.seq), default=None)


def apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two intervals have nothing in common."""
    return one[0] > other[1] or other[0] > one[1]
