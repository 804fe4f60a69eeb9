"""F: how good a node is, and what may be said about one node against another.

F itself is defined with the evaluation (harness.types.fitness). Here stand its interval, the
figures that goals name, and comparisons that do not mistake noise for progress. Ratios are compared
on the log scale. Where two nodes were timed in the same rounds, what these rounds say counts;
otherwise the 95 % intervals are combined as independent errors (root of the sum of squares).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.types import CaseResult, Verdict, eligible, fitness

from .tree import Meeting, Node, Tree, apart, in_order

Change = Literal["improved", "regressed", "equivalent", "inconclusive"]

_SAID: dict[Verdict, Change] = {
    "faster": "improved",
    "slower": "regressed",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
}
MARGIN = 1.02  # ratios nearer to 1 are not progress: the CPU margin of the timing verdicts


@dataclass(frozen=True)
class Figures:
    """Of one evaluation. latency_us: weighted mean over the cases, microseconds. roofline_fraction:
    the smallest achieved fraction of the measured ceiling over the cases. None where a case lacks
    the figure."""

    latency_us: float | None = None
    roofline_fraction: float | None = None


@dataclass(frozen=True)
class Prediction:
    """predicted and observed: F. log_error: ln(observed / predicted), so 0 is exact and positive
    means better than predicted. direction: whether the node moved from its parent the way that was
    predicted (None where the parent has no F)."""

    predicted: float
    observed: float
    log_error: float
    direction: bool | None


def interval(cases: Sequence[CaseResult]) -> tuple[float, float] | None:
    """The interval of F from the cases' 95 % intervals: exp(sum of w_c * ln(bound_c)), for either
    bound.

    Adding the bounds holds whatever the correlation between cases (they share one machine and
    moment), so it is never too narrow. None when F is None or 0, or when a timed case has no
    interval.
    """
    if not fitness(cases):
        return None
    timed = [c for c in cases if c.speedup is not None and not c.held_out and c.weight > 0]
    total = sum(c.weight for c in timed)
    low = high = 0.0
    for case in timed:
        if case.interval is None or case.interval[0] <= 0:
            return None
        low += case.weight / total * math.log(case.interval[0])
        high += case.weight / total * math.log(case.interval[1])
    return math.exp(low), math.exp(high)


def figures(cases: Sequence[CaseResult]) -> Figures:
    """What latency and roofline goals are held against; held-out cases do not count."""
    seen = [c for c in cases if not c.held_out and c.weight > 0]
    latencies = [c.latency_us for c in seen if c.latency_us is not None]
    rooflines = [c.roofline_fraction for c in seen if c.roofline_fraction is not None]
    total = sum(c.weight for c in seen)
    complete = bool(seen) and len(latencies) == len(seen)
    mean = (
        sum(c.weight * t for c, t in zip(seen, latencies, strict=True)) / total
        if complete
        else None
    )
    return Figures(mean, min(rooflines) if seen and len(rooflines) == len(seen) else None)


def compare(node: Node, other: Node, margin: float = MARGIN) -> Change:
    """What the measurements say of `node` against `other`.

    improved: the interval of the ratio F(node) / F(other) lies above `margin`; regressed: below 1 /
    margin; same: inside; inconclusive: it reaches across, or one of the two was never timed. Where
    they met in the same rounds, that verdict holds. A node without an interval counts as exact, so
    that the margin alone decides. Proved correct against not proved correct is improved, whatever
    the speed.
    """
    if node.failed or other.failed:
        return (
            "equivalent"
            if node.failed and other.failed
            else ("regressed" if node.failed else "improved")
        )
    if node.score <= 0 or other.score <= 0:
        return "inconclusive"
    met = meeting(node, other)
    if met is not None and met.verdict is not None:
        return _SAID[met.verdict]
    low, high = _bounds(node, other)
    if low > margin:
        return "improved"
    if high < 1 / margin:
        return "regressed"
    return "equivalent" if low >= 1 / margin and high <= margin else "inconclusive"


def _bounds(node: Node, other: Node) -> tuple[float, float]:
    """Of the ratio of two nodes that have an F; without an interval both ends are the ratio."""
    value, between = ratio(node, other) or (1.0, None)
    if between is not None:
        return between
    down, up = _errors(node, other)
    return value * math.exp(-down), value * math.exp(up)


def meeting(node: Node, other: Node) -> Meeting | None:
    """How `node` did against `other` in the same rounds, whichever was told later; None where they
    were not timed so, or where what was measured since sets their intervals apart."""
    if apart(node.span, other.span):
        return None
    if node.met is not None and node.met.other == other.id and node.met.interval is not None:
        return node.met
    met = other.met
    if met is None or met.other != node.id or met.ratio is None or met.interval is None:
        return None
    turned: dict[str, Verdict] = {"faster": "slower", "slower": "faster"}
    verdict = turned.get(met.verdict or "", met.verdict)
    return Meeting(other.id, verdict, 1 / met.ratio, (1 / met.interval[1], 1 / met.interval[0]))


def ratio(node: Node, other: Node) -> tuple[float, tuple[float, float] | None] | None:
    """The speed of `node` over that of `other` with its 95 % interval: the figures behind
    `compare`. From their meeting where they had one, else F(node) / F(other).

    None when one of them has no F; without an interval when one of them has none.
    """
    if node.score <= 0 or other.score <= 0:
        return None
    met = meeting(node, other)
    if met is not None and met.ratio is not None:
        return met.ratio, met.interval
    value = node.score / other.score
    if node.interval is None or other.interval is None:
        return value, None
    down, up = _errors(node, other)
    return value, (value * math.exp(-down), value * math.exp(up))


def _errors(node: Node, other: Node) -> tuple[float, float]:
    """How far the ratio's interval reaches down and up, on the log scale."""
    return math.hypot(_half(node, 0), _half(other, 1)), math.hypot(_half(node, 1), _half(other, 0))


def _half(node: Node, side: Literal[0, 1]) -> float:
    """Distance between F and one end of its interval, on the log scale; 0 where unknown."""
    if node.interval is None or node.interval[side] <= 0:
        return 0.0
    return abs(math.log(node.interval[side] / node.score))


def against_parent(tree: Tree, node: Node, margin: float = MARGIN) -> Change:
    """`compare` with the best of the node's parents; a node without parents is inconclusive."""
    parents = [tree.by_id[p] for p in node.parents if p in tree.by_id]
    return compare(node, rank(parents)[0], margin) if parents else "inconclusive"


def rank(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Best first: what is eligible `in_order`, then the rest by the F that is assured, then by F,
    then the earlier one."""
    some = tuple(nodes)
    able = [n for n in some if n.eligible and n.score > 0]
    rest = [n for n in some if not (n.eligible and n.score > 0)]
    return (*in_order(able), *sorted(rest, key=lambda n: (-n.assured, -n.score, n.seq)))


def dominates(node: Node, other: Node, margin: float = MARGIN) -> bool:
    """Whether nothing speaks for `other`: it is clearly slower (or not proved correct) and not the
    only eligible one."""
    return compare(node, other, margin) == "improved" and (node.eligible or not other.eligible)


def undominated(nodes: Iterable[Node], margin: float = MARGIN) -> tuple[Node, ...]:
    """The correct nodes that no other dominates, best first: those that a confirmation may still
    tell apart."""
    correct = rank(n for n in nodes if not n.failed)
    return tuple(n for n in correct if not any(dominates(other, n, margin) for other in correct))


def progress(nodes: Sequence[Node], margin: float = MARGIN) -> tuple[Node, ...]:
    """The nodes that moved the best beyond noise when they were inserted, in that order.

    Each is compared with the last of them and not with the best of the moment, so small steps add
    up and lucky ones do not.
    """
    steps: list[Node] = []
    for node in nodes:
        if (
            node.eligible
            and node.score > 0
            and (not steps or compare(node, steps[-1], margin) == "improved")
        ):
            steps.append(node)
    return tuple(steps)


def stalled_for(nodes: Sequence[Node], margin: float = MARGIN) -> int:
    """How many nodes of authors were evaluated since the best last moved beyond noise; all of them
    if it never did. Settings that parameter search tried say nothing of whether authors have
    ideas."""
    steps = progress(nodes, margin)
    since = steps[-1].seq if steps else 0
    return sum(1 for n in nodes if n.seq > since and not n.automatic)


def prediction(tree: Tree, node: Node) -> Prediction | None:
    """What the author foretold (a factor on the best parent's F; on 1 without one) against what was
    measured; None without both."""
    if not node.predicted_speedup or node.predicted_speedup <= 0 or node.score <= 0:
        return None
    parents = [
        p.score for i in node.parents if (p := tree.by_id.get(i)) is not None and p.score > 0
    ]
    before = max(parents, default=0.0)
    foretold = node.predicted_speedup * (before or 1.0)
    direction = (foretold > before) == (node.score > before) if before else None
    return Prediction(foretold, node.score, math.log(node.score / foretold), direction)


__all__ = [
    "MARGIN",
    "Change",
    "Figures",
    "Prediction",
    "against_parent",
    "compare",
    "dominates",
    "eligible",
    "figures",
    "fitness",
    "interval",
    "meeting",
    "prediction",
    "progress",
    "rank",
    "ratio",
    "stalled_for",
    "undominated",
]
