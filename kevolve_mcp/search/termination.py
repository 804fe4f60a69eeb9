"""τ: when a search ends, and why, in a sentence for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.types import Budget, Goal, Spent
from kevolve_mcp.quantities import latency, share, times

from .comparison import progress, stalled_for
from .fitness import Figures
from .node import Node
from .tree import Ask, Tree

Reason = Literal["goal_reached", "roofline_reached", "stalled", "budget_spent"]

STALL_AFTER = 20  # evaluated nodes without progress
# fraction of the measured ceiling in every case: the rest is within the noise of the ceiling itself
ROOFLINE = 0.95

_UNITS = {
    "evaluations": "evaluations",
    "seconds": "seconds",
    "device_seconds": "device seconds",
    "tokens": "tokens",
    "usd": "US dollars",
}


@dataclass(frozen=True)
class Termination:
    """The end of a search. reason: a code. sentence: the reason with its numbers."""

    reason: Reason
    sentence: str


def terminate(
    tree: Tree,
    goal: Goal,
    budget: Budget,
    spent: Spent,
    *,
    best: Figures | None = None,
    open_asks: Sequence[Ask] = (),
    stall_after: int | None = STALL_AFTER,
    roofline_fraction: float | None = ROOFLINE,
) -> Termination | None:
    """Return why the search is over, None while it is not.

    A speed-up goal is reached by the best node's standing (`ranking.standings`), not by its median.

    best: `fitness.figures` of the evaluation of `tree.best()`; without it latency and roofline
    goals are never reached. stall_after: evaluated nodes without progress beyond noise, failures
    included; None to never stall. roofline_fraction: the achieved fraction of the ceiling, in every
    case, that satisfies any goal; None for never. Open asks do not keep a search going; the
    sentence mentions them, and their results are still recorded, unless the evaluations are spent.

    For a given tree, a search that is over stays over for the same reason, however much more is
    spent.
    """
    node = tree.best()
    termination = None
    if node is not None:
        termination = _goal(node, tree.known[node.id], goal, best or Figures()) or _roofline(
            node, best or Figures(), roofline_fraction
        )
    termination = (
        termination or _stall(tree, node, stall_after) or _budget(tree, node, budget, spent)
    )
    if termination is None or not open_asks:
        return termination
    count = len(open_asks)
    still = (
        "1 ask is still open; its result"
        if count == 1
        else f"{count} asks are still open; their results"
    )
    full = budget.evaluations is not None and spent.evaluations >= budget.evaluations
    then = "would exceed the budget" if full else "will be recorded"
    return Termination(termination.reason, f"{termination.sentence} {still} {then}.")


def no_winner(correct: int) -> str:
    """Return why there is no best node. correct: the number of correct nodes, none of which may
    win because it regresses a protected case or was refuted by a confirmation."""
    if correct == 0:
        return "no candidate was proved correct"
    if correct == 1:
        return "the only correct candidate regresses a protected case or was not confirmed"
    return (
        f"each of the {correct} correct candidates regresses a protected case or was not confirmed"
    )


def _no_winner(tree: Tree) -> str:
    said = no_winner(sum(n.status == "correct" for n in tree.nodes))
    return f"{said[0].upper()}{said[1:]}."


def room(budget: Budget, spent: Spent, open_asks: Sequence[Ask], measuring: int = 0) -> int | None:
    """Return how many more asks fit the evaluation budget if every open one is answered, None where
    it is unlimited. measuring: nodes being measured that answer none of these asks."""
    if budget.evaluations is None:
        return None
    return max(0, budget.evaluations - spent.evaluations - measuring - len(open_asks))


def _goal(node: Node, known: float, goal: Goal, best: Figures) -> Termination | None:
    if goal.kind == "speedup" and known >= goal.value:
        return Termination(
            "goal_reached",
            f"Goal reached: {_name(node)}, certainly at least {times(known)}; the goal was "
            f"{goal.value:g}x.",
        )
    if goal.kind == "latency_us" and best.latency_us is not None and best.latency_us <= goal.value:
        text = (
            f"Goal reached: {node.id} takes {latency(best.latency_us)} (weighted mean); the goal "
            f"was {goal.value:g} us."
        )
        return Termination("goal_reached", text)
    if (
        goal.kind == "roofline"
        and best.roofline_fraction is not None
        and best.roofline_fraction >= goal.value
    ):
        text = (
            f"Goal reached: {node.id} is at {share(best.roofline_fraction)} of the ceiling in its "
            f"worst case; the goal was {share(goal.value)}."
        )
        return Termination("goal_reached", text)
    return None


def _roofline(node: Node, best: Figures, threshold: float | None) -> Termination | None:
    if threshold is None or best.roofline_fraction is None or best.roofline_fraction < threshold:
        return None
    text = (
        f"Roofline reached: {_name(node)}, at {share(best.roofline_fraction)} of this device's "
        "measured ceiling in its worst case."
    )
    return Termination("roofline_reached", text)


def _stall(tree: Tree, node: Node | None, after: int | None) -> Termination | None:
    idle = stalled_for(tree.nodes)
    if after is None or idle < after:
        return None
    if node is None:
        text = f"Progress stalled after {idle} candidates. {_no_winner(tree)}"
    else:
        last = progress(tree.nodes)[-1]
        text = (
            f"Progress stalled: none of the last {idle} candidates was faster than {last.id} "
            f"beyond noise. Best: {_name(node)}."
        )
    return Termination("stalled", text)


def _budget(tree: Tree, node: Node | None, budget: Budget, spent: Spent) -> Termination | None:
    name = budget.exceeded(spent)
    outcome = f"Best: {_name(node)}." if node is not None else _no_winner(tree)
    if name is not None:
        used, limit = getattr(spent, name), getattr(budget, name)
        return Termination(
            "budget_spent",
            f"Budget spent: {_amount(used)} of {_amount(limit)} {_UNITS[name]}. {outcome}",
        )
    if (
        budget.seconds is not None
        and budget.seconds - spent.seconds < (longest := _seconds(tree, spent)) / 2
    ):
        used, left = (
            f"{_amount(spent.seconds)} of {_amount(budget.seconds)} seconds",
            budget.seconds - spent.seconds,
        )
        text = (
            f"Budget spent: {used}; a node takes up to {_amount(longest)}, more than the "
            f"{_amount(left)} left."
        )
        return Termination("budget_spent", f"{text} {outcome}")
    return None


def _seconds(tree: Tree, spent: Spent) -> float:
    """The seconds that a node may take; a node that would mostly exceed the limit is not begun. It
    is the second longest evaluation so far, which further nodes never reduce (so that a search that
    is over stays over), but no more than all seconds spent, since answers from the store cost
    nothing."""
    taken = sorted((n.seconds for n in tree.nodes), reverse=True)
    return min(taken[1], spent.seconds) if len(taken) > 1 else 0.0


def _amount(value: float) -> str:
    """The value, rounded to a whole number where that is exact enough."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _name(node: Node) -> str:
    between = (
        f" (95 % interval {node.interval[0]:.3g} to {node.interval[1]:.3g})"
        if node.interval is not None
        else ""
    )
    return f"{node.id} is {times(node.score)}{between}"
