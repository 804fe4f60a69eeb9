"""Comparing nodes without mistaking noise for progress.

Ratios are compared on the log scale. Where two nodes were timed in the same rounds, the result of
these rounds counts, unless their own figures contradict it; otherwise the 95 % intervals are
combined as independent errors (root of the sum of squares).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.types import Verdict

from .node import Meeting, Node
from .ranking import apart, bounds, contradicts
from .tree import ROOT, Tree

Change = Literal["improved", "regressed", "equivalent", "inconclusive"]

_SAID: dict[Verdict, Change] = {
    "faster": "improved",
    "slower": "regressed",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True)
class NodeComparison:
    """One node against another.

    change: improved where the interval of the ratio lies above the margin of the device, regressed
    where it lies below the margin's inverse, equivalent where it lies between, inconclusive where
    it crosses one of them or a node was never timed. ratio: F over F, from the same rounds where
    there were any; None when one of them has no F. interval: 95 %; None without a ratio, or when
    one of them has no interval.
    """

    change: Change
    ratio: float | None = None
    interval: tuple[float, float] | None = None


def compare(node: Node, other: Node) -> NodeComparison:
    """Compare `node` with `other` by their measurements.

    If they were timed in the same rounds, that verdict holds (see `meeting`). A node without an
    interval counts as exact, so that only the margin decides. A node proved correct is improved
    against one that is not, whatever the speed.
    """
    proved = _proved(node, other)
    if node.score <= 0 or other.score <= 0:
        return NodeComparison(proved or "inconclusive")
    met = meeting(node, other)
    if met is not None and met.ratio is not None and met.interval is not None:
        change = _SAID[met.verdict] if met.verdict else _change(node, other, met.interval)
        return NodeComparison(proved or change, met.ratio, met.interval)
    value, between = node.score / other.score, bounds(node, other)
    known = node.interval is not None and other.interval is not None
    return NodeComparison(
        proved or _change(node, other, between), value, between if known else None
    )


def assured(node: Node, other: Node) -> tuple[float | None, tuple[float, float] | None]:
    """Return the ratio and an interval for who trusts neither measurement: its lower end is the
    smaller of what the same rounds and the figures of both say. A candidate can tell rounds in
    which it meets another one by how long it stands still, and be slow in these alone, or be slow
    at random, so that its own interval contradicts nothing."""
    found = compare(node, other)
    if found.interval is None:
        return found.ratio, None
    low, high = found.interval
    return found.ratio, (min(low, bounds(node, other)[0]), high)


def _proved(node: Node, other: Node) -> Change | None:
    """The change where one of the two was not proved correct."""
    if node.failed and other.failed:
        return "equivalent"
    if node.failed or other.failed:
        return "regressed" if node.failed else "improved"
    return None


def _change(node: Node, other: Node, between: tuple[float, float]) -> Change:
    (low, high), margin = between, max(node.margin, other.margin)
    if low > margin:
        return "improved"
    if high < 1 / margin:
        return "regressed"
    return "equivalent" if low >= 1 / margin and high <= margin else "inconclusive"


def meeting(node: Node, other: Node) -> Meeting | None:
    """Return the result of `node` against `other` in the same rounds, whichever came later; None
    where there is none, where their intervals have separated since, or where their figures
    contradict it."""
    if apart(node.span, other.span):
        return None
    if node.met is not None and node.met.other == other.id and node.met.interval is not None:
        return None if contradicts(node, other, node.met.interval) else node.met
    met = other.met
    if met is None or met.other != node.id or met.ratio is None or met.interval is None:
        return None
    if contradicts(other, node, met.interval):
        return None
    turned: dict[str, Verdict] = {"faster": "slower", "slower": "faster"}
    verdict = turned.get(met.verdict or "", met.verdict)
    return Meeting(other.id, verdict, 1 / met.ratio, (1 / met.interval[1], 1 / met.interval[0]))


def versus_parent(tree: Tree, node: Node) -> NodeComparison:
    """Compare a node with the best of its parents; without parents it is inconclusive."""
    parents = [tree.by_id[p] for p in node.parents if p in tree.by_id]
    return compare(node, tree.ranked(parents)[0]) if parents else NodeComparison("inconclusive")


def observed(tree: Tree, node: Node) -> float | None:
    """Return the figure to compare a prediction with: the ratio to the best parent, or F itself
    where the parent is the baseline."""
    if not node.parents or node.parents == (ROOT,):
        return node.fitness or None
    return versus_parent(tree, node).ratio


def undominated(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the correct nodes that no other dominates, in the order given: a confirmation may
    still tell them apart."""
    correct = [n for n in nodes if not n.failed]
    return tuple(n for n in correct if not any(_dominates(other, n) for other in correct))


def _dominates(node: Node, other: Node) -> bool:
    """Whether `other` is clearly slower and not the only eligible one of the two."""
    return compare(node, other).change == "improved" and (node.eligible or not other.eligible)


def progress(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes that improved the best beyond noise when they were inserted, in that order.

    Each is compared with the previous of these nodes, not with the best at that time, so that small
    steps add up and lucky ones do not.
    """
    steps: list[Node] = []
    for node in nodes:
        if (
            node.eligible
            and node.score > 0
            and (not steps or compare(node, steps[-1]).change == "improved")
        ):
            steps.append(node)
    return tuple(steps)


def stalled_for(nodes: Sequence[Node]) -> int:
    """Return the number of authors' nodes since the best last improved beyond noise, or of all if
    it never did. Nodes of parameter search do not count: they do not show whether authors have
    ideas."""
    steps = progress(nodes)
    since = steps[-1].seq if steps else 0
    return sum(1 for n in nodes if n.seq > since and not n.automatic)
