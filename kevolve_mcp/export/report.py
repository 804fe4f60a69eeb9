"""A session as Markdown: a pure function of frozen facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from harness.types import Budget, Evaluation, Goal, Spent, Task
from kevolve_mcp.quantities import percent
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.termination import no_winner
from kevolve_mcp.search.tree import ROOT, Tree

from .dispatch import speedup_text

# nodes drawn in the tree; a longer session keeps the best path and says how many are left out
_SHOWN = 200


@dataclass(frozen=True)
class SessionFacts:
    """What a report needs. evaluations: by evaluation id. confirmed: the clean re-validation of the
    winner; exported: the evaluation of the package as a user calls it, the only figure that is
    claimed. winner: its node id."""

    id: str
    task: Task
    target: str
    language: str
    goal: Goal
    budget: Budget
    spent: Spent
    tree: Tree
    policy: str = ""
    seed: int = 0
    state: str = "open"
    reason: str = ""
    winner: str | None = None
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    confirmed: Evaluation | None = None
    exported: Evaluation | None = None
    package: str = ""


def session_report(facts: SessionFacts) -> str:
    """The report of a session, open or finished."""
    parts = [
        _head(facts),
        _result(facts),
        _cases(facts),
        _path(facts),
        _failures(facts),
        _tree(facts),
        _notes(facts),
    ]
    return "\n".join(part for part in parts if part)


def _head(facts: SessionFacts) -> str:
    limits = [
        (f.name, getattr(facts.spent, f.name), getattr(facts.budget, f.name)) for f in fields(Spent)
    ]
    spent = ", ".join(
        f"{name} {_number(used)}" + (f" of {_number(limit)}" if limit is not None else "")
        for name, used, limit in limits
        if used or limit
    )
    ended = f": {facts.reason}" if facts.reason else ""
    task = facts.task
    return (
        f"# Session {facts.id}\n\n"
        f"* Task: {task.name} (`{task.digest[:12]}`), {len(task.cases)} cases, tolerance "
        f"{task.tolerance}\n"
        f"* Target and language: {facts.target}, {facts.language}\n"
        f"* Goal: {facts.goal}; policy: {facts.policy or '-'}; seed {facts.seed}\n"
        f"* State: {facts.state}{ended}\n"
        f"* Spent: {spent or 'nothing yet'}; {len(facts.tree.nodes)} nodes, {len(facts.tree.asks)} "
        "asks\n"
    )


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _result(facts: SessionFacts) -> str:
    best = _winner(facts)
    if best is None:
        return (
            "## Result\n\n"
            "Nothing was exported: "
            f"{no_winner(sum(n.status == 'correct' for n in facts.tree.nodes))}.\n"
        )
    lines = [f"## Result\n\nWinner: {best.id}, found at F = {best.score:.2f} during the search."]
    for label, evaluation in (
        ("Confirmed in fresh processes with fresh seeds", facts.confirmed),
        ("As a user calls the package", facts.exported),
    ):
        if evaluation is not None:
            figure = (
                f"F = {evaluation.fitness:.2f}" if evaluation.fitness is not None else "not timed"
            )
            lines.append(f"{label}: {evaluation.status}, {figure}.")
    if facts.exported is None:
        lines.append("No package was evaluated, so no figure is claimed.")
    if facts.package:
        lines.append(f"Package: `{facts.package}`.")
    return "\n".join(lines) + "\n"


def _winner(facts: SessionFacts) -> Node | None:
    return facts.tree.by_id.get(facts.winner) if facts.winner else facts.tree.best()


def _cases(facts: SessionFacts) -> str:
    best = _winner(facts)
    evaluation = (
        facts.exported
        or facts.confirmed
        or (facts.evaluations.get(best.evaluation) if best else None)
    )
    if evaluation is None or not evaluation.cases:
        return ""
    rows = [
        f"## Cases ({evaluation.purpose})\n",
        "| case | verdict | speed-up | µs | share of the roofline |",
        "|---|---|---|---|---|",
    ]
    for case in evaluation.cases:
        marks = "".join(
            f" ({mark})"
            for mark, on in (("protected", case.protected), ("held out", case.held_out))
            if on
        )
        latency = "-" if case.latency_us is None else f"{case.latency_us:.1f}"
        share = percent(case.roofline_fraction)
        rows.append(
            f"| {case.name}{marks} | {case.verdict or '-'} | {speedup_text(case)} | {latency} | "
            f"{share} |"
        )
    return "\n".join(rows) + "\n"


def _path(facts: SessionFacts) -> str:
    best = _winner(facts)
    if best is None:
        return ""
    lines = ["## How the winner came about\n"]
    for node in facts.tree.trajectory(best.id):
        origin = f" **borrowed: {node.origin}**" if node.origin else ""
        lines.append(
            f"1. {node.id} ({node.role}){origin} {_score(node)}: "
            f"{_line(node.hypothesis) or 'no hypothesis was given'}"
        )
        if node.predicted_speedup is not None:
            lines.append(f"   predicted {node.predicted_speedup:.2f}x over its parent")
    return "\n".join(lines) + "\n"


def _failures(facts: SessionFacts) -> str:
    signals = Counter(
        name for node in facts.tree.nodes if node.status != "correct" for name in node.signals
    )
    statuses = Counter(node.status for node in facts.tree.nodes)
    if not statuses:
        return ""
    lines = [
        "## What happened\n",
        ", ".join(f"{count} {status}" for status, count in statuses.most_common()) + ".",
    ]
    if signals:
        lines.append(
            "Most frequent findings among failures: "
            + ", ".join(f"{n} ({c})" for n, c in signals.most_common(8))
            + "."
        )
    return "\n".join(lines) + "\n"


def _tree(facts: SessionFacts) -> str:
    if not facts.tree.nodes:
        return ""
    lines: list[str] = []
    seen: set[str] = set()
    pending = [(node, 0) for node in reversed(facts.tree.children(ROOT))]
    while pending and len(lines) < _SHOWN:
        node, depth = pending.pop()
        if node.id in seen:  # a child of two parents is drawn once
            continue
        seen.add(node.id)
        lines.append(
            (
                f"{'  ' * min(depth, 30)}{node.id} {node.role} {_score(node)} "
                f"{_line(node.hypothesis)[:80]}"
            ).rstrip()
        )
        pending += [(child, depth + 1) for child in reversed(facts.tree.children(node.id))]
    left = len(facts.tree.nodes) - len(seen)
    more = f"\n({left} more nodes)" if left else ""
    return "## Tree\n\n```text\n" + "\n".join(lines) + more + "\n```\n"


def _notes(facts: SessionFacts) -> str:
    return (
        "## Notes on the task\n\n" + "\n".join(f"* {note}" for note in facts.task.notes) + "\n"
        if facts.task.notes
        else ""
    )


def _score(node: Node) -> str:
    return (
        node.status
        if node.status != "correct"
        else "correct, untimed"
        if node.fitness is None
        else f"F={node.fitness:.2f}"
    )


def _line(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
