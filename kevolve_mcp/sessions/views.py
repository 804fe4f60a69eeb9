"""From records to the shapes that callers see. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.types import CaseResult, Evaluation, Spent, Task, from_json
from kevolve_mcp.search import ROOT, Node, Tree, against_parent, interval, meeting, rank
from kevolve_mcp.search.tree import AUTOMATIC
from kevolve_mcp.store import SessionRecord

from . import samples
from .types import (
    CaseResultView,
    CaseView,
    EvaluationView,
    ExportedView,
    NodeView,
    SessionView,
    SignalView,
    SimilarView,
)


def node_view(tree: Tree, node: Node) -> NodeView:
    """With its effect on the best of its parents, and "improved" or "regressed" among the signals
    where that is certain."""
    effect, between = versus_parent(tree, node)
    change = against_parent(tree, node)
    told = (change,) if change in ("improved", "regressed") and change not in node.signals else ()
    return NodeView(
        id=node.id,
        parents=node.parents,
        status=node.status,
        fitness=node.fitness,
        interval=node.interval,
        eligible=node.eligible,
        role=node.role,
        origin=node.origin,
        hypothesis=node.hypothesis,
        predicted_speedup=node.predicted_speedup,
        versus_parent=effect,
        versus_parent_interval=between,
        signals=(*told, *node.signals),
        params=dict(node.params),
        structure=node.structure,
        evaluation_id=node.evaluation,
        ask_id=f"a{node.ask}" if node.ask is not None else "",
        candidate=node.candidate,
        created=node.created,
        approved_by=node.approved_by,
        met=node.met,
        provenance=AUTOMATIC if node.automatic else "",
    )


def versus_parent(tree: Tree, node: Node) -> tuple[float | None, tuple[float, float] | None]:
    """F over the F of its best parent, with the interval of that ratio; (None, None) without two
    figures."""
    parents = [tree.by_id[p] for p in node.parents if p in tree.by_id and tree.by_id[p].score > 0]
    return effect(node, rank(parents)[0]) if parents else (None, None)


def effect(node: Node, other: Node) -> tuple[float | None, tuple[float, float] | None]:
    """F(node) / F(other), from the same rounds where they met in some. Otherwise the interval
    divides bound by opposite bound: never too narrow, whatever the correlation."""
    if node.score <= 0 or other.score <= 0:
        return None, None
    if (met := meeting(node, other)) is not None:
        return met.ratio, met.interval
    between = None
    if node.interval is not None and other.interval is not None and other.interval[0] > 0:
        between = (node.interval[0] / other.interval[1], node.interval[1] / other.interval[0])
    return node.score / other.score, between


def best_view(tree: Tree) -> NodeView | None:
    best = tree.best()
    return node_view(tree, best) if best is not None else None


def evaluation_view(
    evaluation_id: str, evaluation: Evaluation, *, held_out: bool = True
) -> EvaluationView:
    """held_out: whether held-out cases are shown (a finish), or only counted."""
    shown = [c for c in evaluation.cases if held_out or not c.held_out]
    return EvaluationView(
        id=evaluation_id,
        candidate=evaluation.candidate,
        status=evaluation.status,
        message=evaluation.message,
        purpose=evaluation.purpose,
        through=evaluation.through,
        fitness=evaluation.fitness,
        interval=interval(evaluation.cases) if evaluation.fitness else None,
        eligible=evaluation.eligible,
        signals=tuple(SignalView(s.name, s.message, s.kind) for s in evaluation.signals),
        cases=tuple(map(_case_result, shown)),
        stages={s.stage: "ok" if s.ok else s.message or "failed" for s in evaluation.stages},
        target=evaluation.target,
        device=evaluation.environment.device,
        toolchain=evaluation.environment.toolchain,
        isolation=evaluation.environment.isolation,
        seconds=evaluation.seconds,
        processes=samples.processes(evaluation),
    )


def session_view(
    record: SessionRecord,
    task: Task,
    tree: Tree,
    spent: Spent,
    *,
    open_asks: int = 0,
    waiting_starts: int = 0,
    exported: ExportedView | None = None,
) -> SessionView:
    """The session as it stands."""
    notes = record.options.get("notes", [])
    return SessionView(
        id=record.id,
        state=record.state,
        task=task.name,
        target=record.target,
        language=record.language,
        goal=str(record.goal),
        selection=record.selection,
        budget=record.budget,
        spent=spent,
        nodes=len(tree.nodes),
        correct=sum(n.status == "correct" for n in tree.nodes),
        open_asks=open_asks,
        waiting_starts=waiting_starts,
        best=best_view(tree),
        exported=exported,
        cases=tuple(
            CaseView(
                c.name,
                c.weight,
                c.protected,
                tuple(map(str, c.inputs)),
                dict(c.baselines_us),
                c.roofline_time_us,
            )
            for c in task.visible_cases
        ),
        baselines=task.baselines,
        tolerance=task.tolerance,
        python=record.python,
        policy=str(record.policy),
        notes=(*task.notes, *map(str, notes)),
        created=record.created,
        finished=record.finished,
        reason=record.reason,
        similar=tuple(from_json(SimilarView, view) for view in record.options.get("similar", ())),
        inject=float(record.options.get("inject", 0.0)),
        tune=float(record.options.get("tune", 0.0)),
    )


def exported_view(node: str, measured: Evaluation) -> ExportedView:
    return ExportedView(node, measured.fitness, interval(measured.cases))


def lineage(tree: Tree, node: Node) -> tuple[NodeView, ...]:
    """Root to node along first parents."""
    return tuple(node_view(tree, n) for n in tree.trajectory(node.id))


def observed(tree: Tree, node: Node) -> float | None:
    """What a prediction is held against: the effect on the best parent, or F itself where the
    parent is the baseline."""
    if not node.parents or node.parents == (ROOT,):
        return node.fitness or None
    return versus_parent(tree, node)[0]


def _case_result(case: CaseResult) -> CaseResultView:
    return CaseResultView(
        name=case.name,
        correct=case.correct,
        speedup=case.speedup,
        interval=case.interval,
        verdict=case.verdict,
        baseline=case.baseline,
        baselines=dict(case.baselines),
        latency_us=case.latency_us,
        roofline_fraction=case.roofline_fraction,
        error=case.error,
        tolerance=case.tolerance,
        detail=case.detail,
        held_out=case.held_out,
        protected=case.protected,
        threads=case.threads,
        allocation=case.allocation,
        naive_speedup=case.naive_speedup,
    )


def ids(nodes: Sequence[Node]) -> str:
    return ", ".join(n.id for n in nodes)
