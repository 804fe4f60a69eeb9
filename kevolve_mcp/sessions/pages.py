"""A node, an evaluation, or the difference of two nodes as text."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.types import Evaluation, to_json
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound, UsageError
from kevolve_mcp.quantities import times
from kevolve_mcp.search import ROOT, Node, Tree, observed
from kevolve_mcp.synthesis.machine import device
from kevolve_mcp.synthesis.wording import PRINTED, met_line, quoted, said, settings

from . import attachments, held_out
from .outline import legend, outlined
from .trees import ids

if TYPE_CHECKING:
    from kevolve_mcp.store import SessionRecord, Store

SECTIONS = ("summary", "source", "log", "profile", "assembly", "cases", "stages", "context")


def node_page(
    store: Store, record: SessionRecord, tree: Tree, node_id: str, section: str, cursor: int
) -> api.View:
    node = _find(tree, node_id)
    view = api.node(tree, node)
    stored = store.evaluations.get(record.id, node.evaluation)
    evaluation = held_out.visible(store, stored)
    if section == "source":
        body = store.candidates.get(node.candidate).source
    elif section == "context":
        if node.ask is None:
            raise NotFound(f"{node.id} answers no ask", "It was submitted without one.")
        body = store.asks.shown(record.id, node.ask)
    elif section == "assembly":
        body = attachments.listings_text(store, evaluation)
    elif section:
        body = _section(evaluation, section)
    else:
        facts = [
            (
                f"parents: {', '.join(node.parents) or 'none (root)'}; children: "
                f"{ids(tree.children(node.id)) or 'none'}"
            ),
            *([f"hypothesis: {said(node.hypothesis)}"] if node.hypothesis else []),
            *([f"rationale: {said(node.rationale)}"] if node.rationale else []),
            *_foretold(tree, node),
            *([f"proved wrong when it was confirmed: {node.refuted}"] if node.refuted else []),
            _section(evaluation, "summary"),
            f"sections: {', '.join(SECTIONS[1:])}",
        ]
        body = "\n".join(facts)
    return api.view(
        "node",
        f"{node.id} of {record.id}: {node_line(view, False)}",
        body,
        cursor,
        nodes=(view,),
        evaluation=api.evaluation(evaluation, stored.id),
    )


def node_line(node: api.Node, detailed: bool) -> str:
    figure = (
        times(node.fitness)
        if node.status == "correct" and node.fitness is not None
        else node.status
    )
    effect = f" ({times(node.versus_parent)} its parent)" if node.versus_parent is not None else ""
    second = f" also from {', '.join(node.parents[1:])}" if len(node.parents) > 1 else ""
    whence = node.origin or node.provenance
    origin = f" [{whence}]" if whence else ""
    params = f" {settings(node.params)}" if node.params else ""
    met = f" ({met_line(node.id, node.met)})" if node.met else ""
    line = f"{node.id} {figure}{effect} {node.role}{origin}{second}{params}{met}"
    if detailed:
        line += f" | {' '.join(node.hypothesis.split())}" if node.hypothesis else ""
        line += f" | {', '.join(node.signals)}" if node.signals else ""
    return line


def _foretold(tree: Tree, node: Node) -> list[str]:
    """The prediction and the measurement; nothing without a prediction, since the figure is shown
    above."""
    if not node.predicted_speedup:
        return []
    effect = observed(tree, node)
    of = "the strongest baseline" if node.parents in ((), (ROOT,)) else "its parent"
    measured = f"measured: {times(effect)}" if effect else "nothing was measured"
    return [f"predicted: {times(node.predicted_speedup)} the speed of {of}; {measured}"]


def evaluation_page(
    store: Store, session_id: str, evaluation_id: str, section: str, cursor: int
) -> api.View:
    """Return the page of an evaluation. session_id: "" for an id that includes its session, or an
    evaluation outside of sessions."""
    stored = store.evaluations.get(session_id or None, evaluation_id)
    e = held_out.visible(store, stored)
    if section == "source":
        body = store.candidates.get(e.candidate).source
    elif section == "assembly":
        body = attachments.listings_text(store, e)
    else:
        body = _section(e, section or "summary")
    head = f"{stored.id}: {e.status}, {e.purpose} through {e.through}, {e.target}"
    shown = api.evaluation(e, stored.id)
    return api.view("evaluation", head, body, cursor, evaluation=shown)


def _section(e: Evaluation, section: str) -> str:
    if section == "log":
        logs = [
            f"[{s.stage}] {said(s.message)}\n{quoted(s.log)}"
            for s in e.stages
            if s.log or s.message
        ]
        return (
            f"What was printed ({PRINTED}):\n" + "\n".join(logs) if logs else "nothing was printed"
        )
    if section == "profile":
        parts = [
            "\n".join([f"[{s.stage}]", *outlined(to_json(s.data)), *legend(s.stage, s.data)])
            for s in e.stages
            if s.data
        ]
        return "\n".join(parts) or "no figures were measured"
    if section == "stages":
        return "\n".join(
            (
                f"{s.stage}: {'ok' if s.ok else 'failed'}, {s.seconds:.2f} "
                f"s{f', {said(s.message)}' if s.message else ''}"
            )
            for s in e.stages
        )
    if section == "cases":
        return json.dumps([to_json(c) for c in e.cases], indent=1)
    if section == "context":
        raise UsageError(
            "an evaluation has no context", "Name the node instead: its context is its ask's text."
        )
    lines = [
        f"The evaluator: {said(e.message)}",
        (
            f"device: {device(e.environment.device)}; {e.environment.toolchain}; isolation "
            f"{e.environment.isolation}"
        ),
    ]
    if processes := api.processes(e):
        lines.append(f"timed in {processes} fresh processes")
    lines += [
        (
            f"- {c.name}: {_case(c.correct, c.speedup, c.interval, c.verdict)} {said(c.detail)}"
        ).rstrip()
        for c in e.cases
    ]
    lines += [f"signal {s.name}: {said(s.message)}" for s in e.signals]
    return "\n".join(lines)


def _case(
    correct: bool, speedup: float | None, interval: Sequence[float] | None, verdict: str | None
) -> str:
    if not correct:
        return "wrong"
    if speedup is None:
        return "correct, not timed"
    return f"{times(speedup, interval)} {verdict or ''}"


def difference_page(
    store: Store, record: SessionRecord, tree: Tree, node_id: str, diff_base: str, cursor: int
) -> api.View:
    if not node_id:
        raise UsageError(
            "a difference needs a node to compare",
            "",
            Action("view", session=record.id, node="n5", other="parent"),
        )
    node = _find(tree, node_id)
    if diff_base == "parent":
        diff_base = node.parents[0] if node.parents else ROOT
    # the root is the task: its text is the reference
    others = [] if diff_base == ROOT else [_find(tree, diff_base)]
    old = (
        store.candidates.get(others[0].candidate).source
        if others
        else store.tasks.get(record.task).source
    )
    new = store.candidates.get(node.candidate).source
    lines = list(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), diff_base, node.id, n=3
        )
    )
    body = (
        "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        or "the texts are equal"
    )
    added = sum(1 for line in lines if line.startswith("+") and not line.startswith("+++"))
    removed = sum(1 for line in lines if line.startswith("-") and not line.startswith("---"))
    return api.view(
        "diff",
        f"{diff_base} -> {node.id}: +{added} -{removed} lines",
        body,
        cursor,
        nodes=tuple(api.node(tree, n) for n in (*others, node)),
    )


def _find(tree: Tree, node_id: str) -> Node:
    if node_id == ROOT:
        raise NotFound(
            "n0 is the root, the task itself: it has no evaluation",
            "Name another node; a difference from n0 compares with the task's text.",
        )
    if node_id not in tree.by_id:
        near = difflib.get_close_matches(node_id, tree.by_id, 3, 0.3) or [
            n.id for n in tree.nodes[-5:]
        ]
        raise NotFound(
            f"there is no node {node_id!r}",
            f"Near: {', '.join(near) or 'none, the tree is empty'}.",
        )
    return tree.by_id[node_id]
