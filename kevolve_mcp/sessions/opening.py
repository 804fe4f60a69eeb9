"""Opening a session: the task is examined, its baselines are measured, and starting kernels become
the first asks."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.types import (
    ISOLATION_LEVELS,
    Candidate,
    MachineReport,
    Policy,
    Target,
    Task,
    to_json,
)
from kevolve_mcp import api, synthesis
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable, UsageError
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.search import NOBODY, Expansion, StartKernel, create_policy
from kevolve_mcp.search.policies import DEFAULT
from kevolve_mcp.store import (
    NewAsk,
    NewSession,
    SessionOptions,
    SessionRecord,
    SimilarKernel,
    Store,
)

from . import experience, gathering, inputs, looking
from .gathering import Reader
from .job import JobKind, OpenParameters
from .shared import Shared, UseCase
from .types import SessionSpec, Text


class Opening(UseCase):
    async def open(self, spec: SessionSpec) -> api.Job:
        """Open a session for the task; its id is in the answer at once. Joins an equal open session
        unless `new`."""
        shared = self._shared
        task = await shared.thread(inputs.load_task, spec.task)
        selection = spec.search.selection or DEFAULT
        if not 0 <= spec.search.inject <= 1:
            raise UsageError(
                f"inject={spec.search.inject}: a probability must be between 0 and 1",
                "The default is 0.1; 0 shows no kernels of similar tasks.",
            )
        if not 0 <= spec.search.tune <= 1:
            raise UsageError(
                f"tune={spec.search.tune}: a share of the budget must be between 0 and 1",
                "The default is 0.2; 0 turns parameter search off.",
            )
        try:
            Target.parse(spec.target)
            create_policy(selection)
        except ValueError as error:
            raise UsageError(
                str(error), "", Action("describe_targets", "lists the targets of this machine")
            ) from None
        language = spec.language or Target.parse(spec.target).usual_language
        text = spec.start or Text(
            path=inputs.companion_start(task.path, language) if task.path else ""
        )
        start = await shared.thread(inputs.load_kernel, text, "start") if text else None
        parameters = OpenParameters(
            name=f"{_slug(task.path)}-{secrets.token_hex(2)}",
            task=task,
            neighbours=tuple(await shared.thread(inputs.beside, task)),
            spec=replace(
                spec,
                task=Text(path=task.path),
                language=language,
                start=Text(source=start.source if start else ""),
                search=replace(spec.search, selection=selection),
            ),
        )
        if not spec.new and (session := await _joinable(shared, parameters)) is not None:
            joined = await _opened(shared, session, parameters, joined=True)
            return api.answered("open", session.id, joined, await self._shared.left(session.id))
        return await shared.jobs.start("open", parameters)

    async def similar(
        self,
        task: Text,
        *,
        target: str = "cpu",
        language: str = "",
        python: str = "",
        limit: int = experience.NAMED,
        progress: Progress | None = None,
    ) -> tuple[str, tuple[api.Similar, ...]]:
        """Return the task's name and the kernels of earlier sessions for similar tasks. The task is
        opened for this, but not timed."""
        shared = self._shared
        if limit < 1:
            raise UsageError(
                f"limit={limit}: it must be at least 1",
                "Leave it out for the default.",
            )
        try:
            Target.parse(target)
        except ValueError as error:
            raise UsageError(
                str(error), "", Action("describe_targets", "lists the targets of this machine")
            ) from None
        loaded = await shared.thread(inputs.load_task, task)
        language = language or Target.parse(target).usual_language
        store = await shared.store()
        executor = shared.pool.get(python, Path(loaded.path).parent if loaded.path else None)
        opened = await executor.open_task(
            loaded.source, loaded.path, target, timed=False, progress=progress
        )
        kernels = await shared.thread(store.similar, opened, target, language, limit)
        similar = experience.named(kernels, opened, target, language)
        return opened.name, tuple(map(api.similar, similar))


class OpenJob(JobKind[OpenParameters, api.Opened]):
    kind = "open"
    parameters = OpenParameters
    result = api.Opened
    usual_s = 30.0

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def same(self, parameters: OpenParameters) -> OpenParameters:
        """Return the parameters without the name of the session."""
        return replace(parameters, name="")

    async def run(self, parameters: OpenParameters, progress: Progress) -> api.Opened:
        shared, p, spec = self._shared, parameters, parameters.spec
        store = await shared.store()
        executor = shared.pool.get(spec.python, p.task.folder)
        report = await shared.pool.report(executor)
        check_target(report, spec.target, spec.language)
        check_isolation(report, spec.policy)
        task = await executor.open_task(p.task.source, p.task.path, spec.target, progress=progress)
        # it was timed together with the ceilings, which asks show
        report = await shared.pool.report(executor, ceilings=Target.parse(spec.target).on_host)
        await shared.thread(store.tasks.put, task, report.environment)
        python = await self._python(executor, spec.python)
        similar = await shared.thread(
            store.similar, task, spec.target, spec.language, experience.NAMED
        )
        starts = await shared.thread(find_starts, shared, task, p, similar)
        new = NewSession(
            task=task.digest,
            target=spec.target,
            language=spec.language,
            goal=spec.goal,
            budget=spec.budget,
            policy=spec.policy,
            selection=spec.search.selection,
            seed=_seed(p),
            python=python,
            options=SessionOptions(
                notes=() if starts.found else tuple(starts.notes),
                skills=spec.search.skills,
                path=p.task.path,
                beside=tuple(p.neighbours),
                inject=spec.search.inject,
                tune=spec.search.tune,
                similar=experience.named(similar, task, spec.target, spec.language),
            ),
        )
        gone = await self._gone(store, new)
        if gone is not None:
            note = (
                f"{gone.id}, an open session of this task, evaluates with {gone.python}, which is "
                "no longer there"
            )
            new = replace(new, options=replace(new.options, notes=(*new.options.notes, note)))
        apart = spec.new or gone is not None
        record, joined = await shared.thread(_created, store, new, p.name, apart)
        if not joined:
            await self._add_starts(store, record, task, starts, report)
        return await _opened(shared, record, p, joined=joined)

    async def _gone(self, store: Store, new: NewSession) -> SessionRecord | None:
        """Return the open session that would be joined, if its interpreter is no longer there."""
        wanted = (new.task, new.target, new.language, new.goal, new.policy)
        record = await self._shared.thread(store.sessions.find_open, *wanted)
        return record if record is not None and await _is_gone(self._shared, record) else None

    async def _python(self, executor: Executor, named: str) -> str:
        """The path of the interpreter that evaluates, so that every server of this session uses the
        same one."""
        chosen = await self._shared.pool.chosen(executor)
        python = named or (chosen.path if chosen else "")
        self._shared.pool.name(executor, python)
        return python

    async def _add_starts(
        self,
        store: Store,
        record: SessionRecord,
        task: Task,
        starts: synthesis.Starts,
        report: MachineReport,
    ) -> None:
        """Add all starts as free asks in one transaction; a repetition after a crash finds them."""
        shared = self._shared
        tree = await shared.thread(shared.trees.load, store, record.id)
        if any(a.role == "start" for a in tree.asks):
            return
        first = await shared.thread(store.asks.next_seq, record.id)
        new = []
        for seq, start in enumerate(starts.found, first):
            digest = await shared.thread(store.candidates.put, start.candidate)
            kernel = StartKernel(digest, start.origin, start.note)
            expansion = Expansion((), "none", "start", start=kernel)
            built = await gathering.build(
                shared, record, task, tree, expansion, seq, Reader({}), report
            )
            context = built.context
            new.append(NewAsk(expansion, context.text, held=context.held))
        if new:
            await shared.thread(
                store.asks.add_all, record.id, new, author=NOBODY, lease_s=0.0, first_seq=first
            )


def check_isolation(report: MachineReport, policy: Policy) -> None:
    """Check that candidates can run under this policy here. Raises Unavailable."""
    level = report.environment.isolation
    if level in ISOLATION_LEVELS and not policy.permits(level):
        reasons = "; ".join(f"{name}: {state}" for name, state in report.isolation.items())
        raise Unavailable(
            f"the policy requires isolation {policy.isolation} or stronger, but this machine "
            f"offers {level} ({reasons})",
            "Enable a stronger level, or accept this one.",
            Action("give", "accepts it", setting="isolation", value=level),
        )


def check_target(report: MachineReport, target: str, language: str) -> None:
    """Check that kernels of this language can be measured on the target. Raises Unavailable."""
    named = [t for t in report.targets if t.target == target]
    named = named or [t for t in report.targets if t.target == target.partition(":")[0]]
    best = next((t for t in named if language in t.languages), named[0] if named else None)
    able = ", ".join(t.target for t in report.targets if t.mode == "execute") or "none"
    if best is None:
        raise Unavailable(
            f"target {target} is not known on this machine",
            f"Targets that can be measured here: {able}.",
        )
    if best.mode in ("verify", "compile"):
        raise Unavailable(
            f"{language} kernels can only be "
            f"{'verified on' if best.mode == 'verify' else 'compiled for'} {target} here: "
            f"{best.reason}",
            f"A session needs a device to measure on ({able}).",
            Action(
                "check" if best.mode == "verify" else "compile",
                f"works for {language} on {target}",
                target=target,
                language=language,
            ),
        )
    if best.mode == "execute" and best.languages and language not in best.languages:
        raise Unavailable(
            f"{language} kernels do not work on {target} here",
            f"Languages for {target} on this machine: {', '.join(best.languages)}.",
        )
    if best.mode == "absent":
        raise Unavailable(
            f"target {target} does not work here: {best.reason}",
            f"Targets that can be measured here: {able}.",
        )


def find_starts(
    shared: Shared, task: Task, p: OpenParameters, similar: Sequence[SimilarKernel]
) -> synthesis.Starts:
    """Return starts: the user's kernel, matching skills, kernels of similar tasks."""
    spec = p.spec
    return synthesis.find_starts(
        task,
        spec.target,
        spec.language,
        user=Candidate(spec.start.source, spec.language) if spec.start.source else None,
        skills=sorted(shared.library().skills(), key=lambda s: -s.page.standing)
        if spec.search.skills
        else (),
        similar=[experience.lent(s) for s in similar if s.candidate.language == spec.language][
            : experience.LENT
        ],
    )


async def _joinable(shared: Shared, p: OpenParameters) -> SessionRecord | None:
    """The open session of the same task, target and language, found without examining the task
    again: its file, its held-out companion and all modules loaded from the folder are unchanged.
    Other sessions may turn out to be equal once the task is examined."""
    store, spec = await shared.store(), p.spec

    def find() -> SessionRecord | None:
        for summary in store.sessions.list("open"):
            record = summary.session
            same = (record.target, record.language, record.goal) == (
                spec.target,
                spec.language,
                spec.goal,
            )
            if (
                not same
                or record.policy != spec.policy
                or not _unchanged(store.tasks.get(record.task), record, p)
            ):
                continue
            # a session whose budget is spent can only be finished
            if record.budget.exceeded(store.sessions.spent(record.id)) is None:
                return record
        return None

    record = await shared.thread(find)
    return None if record is None or await _is_gone(shared, record) else record


async def _is_gone(shared: Shared, record: SessionRecord) -> bool:
    """Whether no interpreter is left to evaluate a session's kernels with, as far as its judge can
    be asked."""
    if not record.python:
        return False
    try:
        return await shared.pool.chosen(shared.pool.get(record.python)) is None
    except (EvaluatorUnavailable, Unavailable):
        return False


def _unchanged(task: Task, record: SessionRecord, p: OpenParameters) -> bool:
    """Whether examining the task would find the task of this session again."""
    options = record.options
    if (task.source, options.path, options.beside) != (
        p.task.source,
        p.task.path,
        tuple(p.neighbours),
    ):
        return False
    return inputs.digest(p.task, task.neighbours) == task.digest


async def _opened(
    shared: Shared, record: SessionRecord, p: OpenParameters, *, joined: bool
) -> api.Opened:
    view = await looking.session(shared, record)
    return api.Opened(view, joined, _differences(record, p) if joined else ())


def _created(store: Store, new: NewSession, name: str, fresh: bool) -> tuple[SessionRecord, bool]:
    """The session, and whether an earlier call created it; one of this name was created by this job
    before a crash."""
    if fresh:
        return store.sessions.create(new, name), False
    record, there = store.sessions.join(new, name)
    return record, there and record.id != name


def _differences(record: SessionRecord, p: OpenParameters) -> tuple[str, ...]:
    differences, spec = [], p.spec
    if record.budget != spec.budget:
        differences.append(
            f"its budget is {to_json(record.budget)}; another budget needs a session of its own"
        )
    if record.selection != spec.search.selection:
        differences.append(f"its selection policy is {record.selection}")
    if (inject := record.options.inject) != spec.search.inject:
        differences.append(f"its asks show a kernel of a similar task with probability {inject:g}")
    if (tune := record.options.tune) != spec.search.tune:
        differences.append(f"parameter search may use {tune:g} of its budget")
    if spec.python and record.python != spec.python:
        differences.append(f"it evaluates with {record.python}")
    return tuple(differences)


def _seed(p: OpenParameters) -> int:
    """The given seed, else one derived from the session's name."""
    seed = p.spec.search.seed
    return int(p.name.rsplit("-", 1)[-1], 16) if seed is None else seed


def _slug(path: str) -> str:
    file = Path(path)
    name = (
        file.parent.name + file.stem.removeprefix("task")
        if file.stem == "task" or file.stem.startswith("task_")
        else file.stem
    )
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].rstrip("_") or "task"
