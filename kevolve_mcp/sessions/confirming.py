"""The finish of a session: re-validate the winner, export it, measure the package as a user calls
it, propose skills."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.types import (
    Candidate,
    Evaluation,
    EvaluationRequest,
    Task,
    eligible,
)
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, KEvolveError, NotFound
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.export import (
    ExportResult,
    LineageStep,
    export_package,
    package_candidate,
    read_package,
    record_evaluation,
)
from kevolve_mcp.search import Node, Tree, figures, terminate, unmet_goals
from kevolve_mcp.store import Approval, SessionOutcome, SessionRecord, Store, StoredEvaluation

from . import comparing, contests, evaluating, held_out, looking, reviews, skills
from .evaluating import EvaluationOrder
from .job import FinishParameters, JobKind
from .shared import Shared
from .trees import ids

MAX_TRIES = 3  # the number of best nodes that may fail confirmation before the finish gives up


def choose(record: SessionRecord, tree: Tree, node_id: str) -> tuple[Node, ...]:
    """Return the nodes to confirm, best first, or only the named one. Where the policy requires a
    review, only approved nodes. Raises NotFound, Conflict."""
    if node_id:
        node = tree.by_id.get(node_id)
        if node is None:
            raise NotFound(
                f"there is no node {node_id}",
                f"Nodes: {ids(tree.nodes[-10:]) or 'none yet'}.",
            )
        if node.status == "needs_review":
            raise Conflict(
                f"{node.id} needs a review",
                "",
                Action("approve", session=record.id, node=node.id),
            )
        if node.status != "correct":
            raise Conflict(
                f"{node.id} was not proved correct ({node.status})",
                "Choose a correct node, or leave it out for the best.",
            )
        if record.policy.review and not node.approved_by:
            raise _unreviewed(record, node)
        return (node,)
    ranked = tree.ranked(n for n in tree.nodes if n.eligible and n.score > 0)
    if ranked and record.policy.review:
        best, ranked = ranked[0], tuple(n for n in ranked if n.approved_by)
        if not ranked:
            raise _unreviewed(record, best)
    if not ranked:
        waiting = [n for n in tree.nodes if n.status == "needs_review"]
        approving = [
            Action("approve", "approves one", session=record.id, node=n.id) for n in waiting[-1:]
        ]
        raise Conflict(
            "no node can be exported: none is correct, timed and without a regression in a "
            "protected case"
            + (f"; proved wrong when confirmed: {_refuted(tree)}" if _refuted(tree) else "")
            + (f"; a person should review {ids(waiting[-5:])}." if waiting else "."),
            "Continue the search, or name a correct node.",
            *approving,
            Action("next_ask", session=record.id),
            Action("discard", "closes it without an export", session=record.id),
        )
    return ranked


def _refuted(tree: Tree) -> str:
    return ", ".join(f"{node.id} ({node.refuted})" for node in tree.nodes if node.refuted)


def _unreviewed(record: SessionRecord, node: Node) -> Conflict:
    return Conflict(
        "the session's policy requires a review before an export, and nobody has approved "
        f"{node.id}",
        "Finish again once it is approved.",
        Action("approve", session=record.id, node=node.id),
    )


class FinishJob(JobKind[FinishParameters, api.Finished]):
    """The job that finishes a session. Run again after a crash, it finds confirmation and
    measurement in the store."""

    kind = "finish"
    parameters = FinishParameters
    result = api.Finished
    usual_s = 60.0

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def same(self, parameters: FinishParameters) -> object:
        return parameters.session, parameters.node

    async def run(self, parameters: FinishParameters, progress: Progress) -> api.Finished:
        shared, p = self._shared, parameters
        store = await shared.store()
        record = await shared.thread(store.sessions.get, p.session)
        if record.state == "finished":
            return await finished(shared, record, p.include_files)
        tree = await shared.thread(shared.trees.load, store, record.id)
        task = await shared.thread(store.tasks.get, record.task)
        chosen = choose(record, tree, p.node)
        contest = await contests.hold(
            shared, record, task, chosen, _part(progress, 0.0, 0.2, "choosing the winner")
        )
        first = contest.order[:MAX_TRIES]
        node, candidate, confirmed, rejected = await self._confirm(
            store, record, task, first, _part(progress, 0.2, 0.5)
        )
        before = {
            n.id: f"proved wrong when it was confirmed before ({n.refuted})"
            for n in tree.nodes
            if n.refuted and n.id != node.id
        }
        approval = (await shared.thread(store.approvals.newest, record.id)).get(node.id)
        progress(ProgressEvent("export", f"writing the package of {node.id}", 0.5))
        exported = await shared.thread(
            self._export, record, task, tree, node, candidate, confirmed.evaluation, approval
        )
        measuring = _part(progress, 0.5, 0.95, "measuring the package", task)
        measured = await self._measure(store, record, task, exported, node, measuring)
        progress(ProgressEvent("finish", "proposing skills", 0.97))
        proposed, notes = await shared.thread(_learn, shared, store, record, task, tree, node)
        reason = await self._reason(store, record, tree, node, named=bool(p.node))
        outcome = SessionOutcome(
            node=node.id,
            confirmed=confirmed.id,
            measured=measured.id,
            package=str(exported.path),
            files=exported.files,
            rejected={**before, **rejected},
            skills=tuple(proposed),
            skill_notes=tuple(notes),
            contest=contest.duels,
            contest_note=contest.note,
        )
        ended = await shared.thread(store.sessions.finish, record.id, "finished", reason, outcome)
        return await finished(shared, ended, p.include_files)

    async def _confirm(
        self,
        store: Store,
        record: SessionRecord,
        task: Task,
        nodes: tuple[Node, ...],
        progress: Progress,
    ) -> tuple[Node, Candidate, StoredEvaluation, dict[str, str]]:
        """The first node that its re-validation confirms, and why those before it were not. Raises
        Conflict without one."""
        rejected, reasons, approving = dict[str, str](), list[str](), list[Action]()
        for place, node in enumerate(nodes):
            candidate = await self._shared.thread(store.candidates.get, node.candidate)
            request = EvaluationRequest(candidate, "confirm", "diagnose", record.policy)
            low, high = place / len(nodes), (place + 1) / len(nodes)
            part = _part(progress, low, high, f"re-validating {node.id}", task)
            part(ProgressEvent("confirm", "in fresh processes", 0.0))
            confirmation, _ = await evaluating.stored(
                self._shared, self._order(record, task, request), part
            )
            why = await self._shared.thread(reviews.against, store, confirmation, record.id, node)
            if not why and (eligible(confirmation.evaluation.cases) or len(nodes) == 1):
                return node, candidate, confirmation, rejected
            if why and confirmation.evaluation.status == "needs_review":
                approving.append(Action("approve", session=record.id, node=node.id))
            # the full reason can be read once the session is over
            rejected[node.id] = _rejection(confirmation, why)
            shown = await self._shared.thread(held_out.veiled, store, confirmation)
            why = await self._shared.thread(reviews.against, store, shown, record.id, node)
            reasons.append(f"{node.id}: {_rejection(confirmation, why)}")
        raise Conflict(
            f"no node was confirmed: {'; '.join(reasons)}",
            "Fix them and go on, or name another node."
            + (" A node that is approved now passes: then finish again." if approving else ""),
            *approving,
            Action("next_ask", session=record.id),
        )

    def _export(
        self,
        record: SessionRecord,
        task: Task,
        tree: Tree,
        node: Node,
        candidate: Candidate,
        confirmed: Evaluation,
        approval: Approval | None,
    ) -> ExportResult:
        folder = self._shared.settings.home / "exports" / record.id
        if (there := _exported(folder, confirmed)) is not None:
            return there
        steps = [
            LineageStep(
                n.id, str(n.origin) if n.origin else None, n.hypothesis, n.fitness, n.status
            )
            for n in tree.trajectory(node.id)
        ]
        return export_package(
            folder,
            task=task,
            candidate=candidate,
            evaluation=confirmed,
            lineage=steps,
            session=record.id,
            policy=record.policy,
            approved_by=approval.author if approval else "",
            approved_at=datetime.fromtimestamp(approval.created, UTC).isoformat(timespec="seconds")
            if approval
            else "",
            goal=record.goal,
        )

    async def _measure(
        self,
        store: Store,
        record: SessionRecord,
        task: Task,
        exported: ExportResult,
        node: Node,
        progress: Progress,
    ) -> StoredEvaluation:
        """Measure the package as a user calls it. Raises Conflict when it does not verify."""
        candidate = await self._shared.thread(package_candidate, exported.path)
        policy = replace(
            record.policy, library_calls="allow"
        )  # cases that the kernel does not win go to the reference, by design
        request = EvaluationRequest(candidate, "export", "diagnose", policy)
        progress(ProgressEvent("export", "as a user calls it", 0.0))
        measurement, _ = await evaluating.stored(
            self._shared, self._order(record, task, request), progress
        )
        if await self._shared.thread(reviews.against, store, measurement, record.id, node):
            approve = Action("approve", session=record.id, node=node.id)
            shown = await self._shared.thread(held_out.veiled, store, measurement)
            why = await self._shared.thread(reviews.against, store, shown, record.id, node)
            raise Conflict(
                f"the exported package does not verify: {_rejection(measurement, why)}",
                f"The package is in {exported.path}; the session stays open.",
                Action("view", "shows more", session=record.id, evaluation=measurement.id),
                *((approve,) if measurement.evaluation.status == "needs_review" else ()),
            )
        await self._shared.thread(record_evaluation, exported.path, measurement.evaluation)
        return measurement

    async def _reason(
        self, store: Store, record: SessionRecord, tree: Tree, node: Node, *, named: bool
    ) -> str:
        if named:
            return f"{node.id} was chosen by name."
        best = tree.best()
        cases = (
            (
                await self._shared.thread(store.evaluations.get, record.id, best.evaluation)
            ).evaluation.cases
            if best
            else ()
        )
        spent = await self._shared.thread(store.sessions.spent, record.id)
        over = terminate(tree, record.goal, record.budget, spent, best=figures(cases))
        return over.sentence if over else "Finished on request, before a termination rule applied."

    def _order(
        self, record: SessionRecord, task: Task, request: EvaluationRequest
    ) -> EvaluationOrder:
        task, executor = evaluating.place(self._shared, record, task)
        return EvaluationOrder(task, request, record.target, executor, record.id)


def _learn(
    shared: Shared, store: Store, record: SessionRecord, task: Task, tree: Tree, node: Node
) -> tuple[list[str], list[str]]:
    """The skills that this session proposes, and why other steps gave none. Repeated after a crash,
    it changes nothing."""
    shipped = tuple(s for s in shared.library().skills() if not skills.is_learned(s.id))
    proposed = skills.propose_from(store, record, task, tree, node, shipped)
    note(shared, store, tree, record)
    return proposed


def note(shared: Shared, store: Store, tree: Tree, record: SessionRecord) -> None:
    skills.note_outcomes(store, tree, record.id)
    skills.settle(store, shared.settings.skills)


def _rejection(stored: StoredEvaluation, why: str) -> str:
    """Why a node was not confirmed. why: "" where every case is correct."""
    return f"{stored.evaluation.status}: {why or 'a protected case regressed'} ({stored.id})"


async def finished(shared: Shared, record: SessionRecord, include_files: bool) -> api.Finished:
    """Return the result of a finished session from the store; a package that was moved keeps its
    figures."""
    store = await shared.store()
    view = await looking.session(shared, record)
    ended = record.outcome
    if record.state != "finished" or ended is None:
        return api.Finished(view, record.state, record.reason)
    tree = await shared.thread(shared.trees.load, store, record.id)
    node = tree.by_id[ended.node]
    confirmed = await shared.thread(store.evaluations.get, record.id, ended.confirmed)
    measured = await shared.thread(store.evaluations.get, record.id, ended.measured)
    return api.Finished(
        session=view,
        state=record.state,
        reason=record.reason,
        node=api.node(tree, node),
        confirmed=api.evaluation(confirmed.evaluation, confirmed.id),
        measured=api.evaluation(measured.evaluation, measured.id),
        unmet_goals=unmet_goals(
            record.goal, measured.evaluation.cases, confirmed.evaluation.cases, record.target
        ),
        package=ended.package,
        files=ended.files,
        contents=await shared.thread(_contents, Path(ended.package)) if include_files else {},
        lineage=api.lineage(tree, node),
        rejected=dict(ended.rejected),
        skills=tuple([await shared.thread(skills.brief, store, name) for name in ended.skills]),
        skill_notes=ended.skill_notes,
        contest=tuple(map(comparing.duel_view, ended.contest)),
        contest_note=ended.contest_note,
    )


def _exported(folder: Path, confirmed: Evaluation) -> ExportResult | None:
    """The package of exactly this confirmation, written before a crash; None where there is no
    complete one."""
    place = folder.with_name(re.sub(r"\W", "_", folder.name))
    try:
        package = read_package(place)
    except KEvolveError:
        return None
    shown = api.evaluation(confirmed, record=True)
    if package.manifest.key != confirmed.key or package.evaluation != shown:
        return None
    return ExportResult(
        package.path, tuple(sorted({*package.texts, "manifest.json"})), package.manifest
    )


def _contents(folder: Path) -> dict[str, str]:
    """The text of every file of the package, by its path below the folder; empty if it was
    moved."""
    try:
        package = read_package(folder)
        return {
            **package.texts,
            "manifest.json": (package.path / "manifest.json").read_text(encoding="utf-8"),
        }
    except (KEvolveError, OSError):
        return {}


def _part(
    progress: Progress, low: float, high: float, doing: str = "", task: Task | None = None
) -> Callable[[ProgressEvent], None]:
    """Progress of one part of the whole. doing: what this part does, put before the evaluator's
    messages. task: that of a confirmation, whose cases are not named where some are held out."""
    hides = task is not None and held_out.takes_part(task)
    before = f"{doing}: " if doing else ""
    return lambda event: progress(
        ProgressEvent(
            event.stage,
            doing if hides else before + event.message,
            low + (high - low) * event.fraction,
        )
    )
