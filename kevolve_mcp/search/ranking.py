"""The order of nodes: by a lower bound of F, never by the measured median, since the highest median
of many is probably lucky."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from .node import Meeting, Node

# figures of different runs differ by so much more than their intervals say, on a noisy machine
DRIFT = 1.2


def standings(nodes: Iterable[Node]) -> dict[str, float]:
    """Return the standing of each node by id: a lower bound of its F.

    It is the lower end of F's interval or, if higher and within F's interval, the standing of the
    node that it was timed against in the same rounds times the lower end of their ratio. A node
    that did not win has at most the standing of the other, and less if it lost. So the winner of a
    head-to-head ranks above the loser, and a node that was not told apart from the best ranks
    behind it.
    """
    assured: dict[str, float] = {}
    earlier: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda n: n.seq):
        value, met = node.assured, _met(node, earlier)
        if met is not None:
            base, (low, high) = assured[met.other], met.interval or (0.0, 1.0)
            # a chain of wins proves no more than the last one's measured interval
            most = max(node.span[1], math.nextafter(base, math.inf))
            value = max(value, min(base * low, most))
            if not met.won:
                value = min(value, base * min(high, 1.0))
        assured[node.id] = value
        earlier[node.id] = node
    return assured


def losses(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    """Return the nodes to which each node lost in the same rounds, by id, for nodes that lost."""
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
    """The head-to-head of a node, if it counts: against a node that may win, and whose interval has
    not separated from it since."""
    met = node.met
    other = earlier.get(met.other) if met is not None else None
    if met is None or other is None or met.verdict is None:
        return None
    if not able(other) or apart(node.span, other.span):
        return None
    return None if met.interval and contradicts(node, other, met.interval) else met


def able(node: Node) -> bool:
    """Return whether a node may win: correct, timed, not refuted, and without a regression in a
    protected case."""
    return node.eligible and node.score > 0


def champion(nodes: Iterable[Node]) -> Node | None:
    """Return the best node that may win, None without one."""
    some = tuple(nodes)
    return first(some, standings(some))


def first(nodes: Iterable[Node], known: Mapping[str, float]) -> Node | None:
    """Return the `champion` by standings that are already computed."""
    return min(filter(able, nodes), key=lambda n: (-known[n.id], n.seq), default=None)


def contradicts(node: Node, other: Node, met: tuple[float, float]) -> bool:
    """Return whether the figures of two nodes contradict the interval of their ratio in the same
    rounds: one of them may be slow only where they meet. Not without both intervals."""
    if node.interval is None or other.interval is None or node.score <= 0 or other.score <= 0:
        return False
    low, high = bounds(node, other)
    return apart(met, (low / DRIFT, high * DRIFT))


def bounds(node: Node, other: Node) -> tuple[float, float]:
    """Return the interval of the ratio of two nodes that have an F; without intervals both ends are
    the ratio."""
    value = node.score / other.score
    down = math.hypot(_half(node, 0), _half(other, 1))
    up = math.hypot(_half(node, 1), _half(other, 0))
    return value * math.exp(-down), value * math.exp(up)


def _half(node: Node, side: Literal[0, 1]) -> float:
    """The distance between F and one end of its interval on the log scale, 0 where unknown."""
    if node.interval is None or node.interval[side] <= 0:
        return 0.0
    return abs(math.log(node.interval[side] / node.score))


def apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether two intervals are disjoint."""
    return one[0] > other[1] or other[0] > one[1]
