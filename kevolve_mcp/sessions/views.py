"""From records to the shapes that callers see. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.types import CaseResult, Evaluation, Spent, Task, from_json
from kevolve_mcp.search import Node, Tree, interval, versus_parent
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
    found = versus_parent(tree, node)
    certain = found.change in ("improved", "regressed") and found.change not in node.signals
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
        versus_parent=found.ratio,
        versus_parent_interval=found.interval,
        signals=(*((found.change,) if certain else ()), *node.signals),
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
        host_peak_bytes=case.host_peak_bytes,
        baseline_host_peak_bytes=case.baseline_host_peak_bytes,
        device_peak_bytes=case.device_peak_bytes,
        baseline_device_peak_bytes=case.baseline_device_peak_bytes,
    )


def ids(nodes: Sequence[Node]) -> str:
    return ", ".join(n.id for n in nodes)
