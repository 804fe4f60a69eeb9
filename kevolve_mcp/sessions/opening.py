"""Opening a session: the task examined, its baselines measured, starting kernels collected as the
first asks."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.types import (
    ISOLATION_LEVELS,
    Budget,
    Candidate,
    CodecError,
    Goal,
    MachineReport,
    Policy,
    Target,
    Task,
    from_json,
    to_json,
)
from kevolve_mcp import synthesis
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound, Unavailable, UsageError
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.search import Expansion, create_policy
from kevolve_mcp.search.policies import DEFAULT
from kevolve_mcp.store import Job, NewAsk, NewSession, SessionRecord, SimilarKernel, Store

from . import experience, gathering, inputs, looking
from .gathering import Reader
from .shared import Shared
from .types import JobView, Opened, SessionSpec, Text


async def open_session(shared: Shared, spec: SessionSpec) -> JobView:
    """Check what can be checked at once, join an equal open session, or start the job that opens
    one."""
    task = await shared.thread(inputs.load_task, spec.task)
    selection = spec.search.selection or DEFAULT
    if not 0 <= spec.search.inject <= 1:
        raise UsageError(
            f"inject={spec.search.inject}: a probability lies between 0 and 1",
            "0.1 is the default; 0 shows nothing.",
        )
    if not 0 <= spec.search.tune <= 1:
        raise UsageError(
            f"tune={spec.search.tune}: a share of the budget lies between 0 and 1",
            "0.2 is the default; 0 searches no parameters without an author.",
        )
    try:
        Target.parse(spec.target)
        create_policy(selection)
    except ValueError as error:
        raise UsageError(
            str(error), "", Action("describe_targets", "lists the targets of this machine")
        ) from None
    language = spec.language or Target.parse(spec.target).usual_language
    given = spec.start or Text(
        path=inputs.companion_start(task.path, language) if task.path else ""
    )
    start = await shared.thread(inputs.load_kernel, given, "start") if given else None
    payload = {
        "source": task.source,
        "path": task.path,
        "beside": await shared.thread(inputs.beside, task),
        "target": spec.target,
        "language": language,
        "goal": str(spec.goal),
        "budget": to_json(spec.budget),
        "policy": to_json(spec.policy),
        "selection": selection,
        "start": start.source if start else "",
        "python": spec.python,
        "skills": spec.search.skills,
        "seed": spec.search.seed,
        "inject": spec.search.inject,
        "tune": spec.search.tune,
        "new": spec.new,
    }
    if not spec.new and (found := await _joinable(shared, payload)) is not None:
        return await _joined(shared, found, payload)
    same = hashlib.sha256(repr(sorted(payload.items())).encode()).hexdigest()
    name = _slug(task.path)
    return await shared.jobs.start(
        "open", None, {**payload, "session": f"{name}-{secrets.token_hex(2)}"}, same
    )


class Opening:
    """The handler of "open" jobs."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def run(self, job: Job, progress: Progress) -> dict[str, Any]:
        shared, p = self._shared, job.payload
        store = await shared.store()
        executor = shared.pool.get(p["python"], Path(p["path"]).parent if p["path"] else None)
        report = await shared.pool.report(executor)
        check_target(report, p["target"], p["language"])
        check_isolation(report, _decoded(Policy, p["policy"]))
        task = await executor.open_task(p["source"], p["path"], p["target"], progress=progress)
        await shared.thread(store.tasks.put, task, report.environment)
        python = await self._python(executor, p["python"])
        similar = await shared.thread(
            store.similar, task, p["target"], p["language"], experience.NAMED
        )
        starts = await shared.thread(find_starts, shared, task, p, similar)
        new = NewSession(
            task=task.digest,
            target=p["target"],
            language=p["language"],
            goal=Goal.parse(p["goal"]),
            budget=_decoded(Budget, p["budget"]),
            policy=_decoded(Policy, p["policy"]),
            selection=p["selection"],
            seed=int(p["session"].rsplit("-", 1)[-1], 16) if p["seed"] is None else p["seed"],
            python=python,
            options={
                "notes": [] if starts.found else list(starts.notes),
                "skills": p["skills"],
                "path": p["path"],
                "beside": p["beside"],
                # a job that an earlier release left has neither
                "inject": p.get("inject", 0.0),
                "tune": p.get("tune", 0.0),
                "similar": to_json(experience.named(similar, task, p["target"], p["language"])),
            },
        )
        record, joined = await shared.thread(_created, store, new, p["session"], p["new"])
        if not joined:
            await self._add_starts(store, record, task, starts, report)
        return {"session": record.id, "joined": joined}

    async def show(self, job: Job) -> Opened:
        assert job.result is not None
        store = await self._shared.store()
        record = await self._shared.thread(store.sessions.get, job.result["session"])
        view = await looking.session(self._shared, record)
        return Opened(
            view,
            bool(job.result["joined"]),
            _differences(record, job.payload) if job.result["joined"] else (),
        )

    async def _python(self, executor: Executor, asked: str) -> str:
        """The interpreter that evaluates, by path, so that every server of this session takes the
        same one."""
        chosen = await self._shared.pool.chosen(executor)
        python = asked or (chosen.path if chosen else "")
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
        """All in one transaction, free to be taken at once; a repetition after a crash finds them
        there."""
        shared = self._shared
        tree = await shared.thread(shared.trees.load, store, record.id)
        if any(a.role == "start" for a in tree.asks):
            return
        first = await shared.thread(store.asks.next_seq, record.id)
        new = []
        for seq, start in enumerate(starts.found, first):
            digest = await shared.thread(store.candidates.put, start.candidate)
            memory = {"candidate": digest, "origin": start.origin, "note": start.note}
            expansion = Expansion((), "none", "start", memory)
            built = await gathering.build(
                shared, record, task, tree, expansion, seq, Reader({}), report
            )
            new.append(NewAsk(expansion, built.context.text))
        if new:
            await shared.thread(
                store.asks.add_all, record.id, new, author="", lease_s=0.0, first_seq=first
            )


def check_isolation(report: MachineReport, policy: Policy) -> None:
    """Raises Unavailable when no candidate could run under this policy here."""
    level = report.environment.isolation
    if level in ISOLATION_LEVELS and not policy.permits(level):
        reasons = "; ".join(f"{name}: {state}" for name, state in report.isolation.items())
        raise Unavailable(
            f"the policy asks for isolation {policy.isolation} or stronger, this machine gives "
            f"{level} ({reasons})",
            "Enable a stronger level, or accept this one.",
            Action("give", "accepts it", setting="isolation", value=level),
        )


def check_target(report: MachineReport, target: str, language: str) -> None:
    """Raises Unavailable unless kernels of this language can be measured there."""
    named = [t for t in report.targets if t.target == target]
    named = named or [t for t in report.targets if t.target == target.partition(":")[0]]
    found = next((t for t in named if language in t.languages), named[0] if named else None)
    able = ", ".join(t.target for t in report.targets if t.mode == "execute") or "none"
    if found is None:
        raise Unavailable(
            f"target {target} is not known on this machine",
            f"Targets that can be measured here: {able}.",
        )
    if found.mode in ("verify", "compile"):
        raise Unavailable(
            f"{language} kernels can only be "
            f"{'verified on' if found.mode == 'verify' else 'compiled for'} {target} here: "
            f"{found.reason}",
            f"A session needs a device to measure on ({able}).",
            Action(
                "check" if found.mode == "verify" else "compile",
                f"works for {language} on {target}",
                target=target,
                language=language,
            ),
        )
    if found.mode == "execute" and found.languages and language not in found.languages:
        raise Unavailable(
            f"{language} kernels do not work on {target} here",
            f"Languages for {target} on this machine: {', '.join(found.languages)}.",
        )
    if found.mode == "absent":
        raise Unavailable(
            f"target {target} does not work here: {found.reason}",
            f"Targets that can be measured here: {able}.",
        )


def find_starts(
    shared: Shared, task: Task, p: dict[str, Any], similar: Sequence[SimilarKernel]
) -> synthesis.Starts:
    """The user's kernel, skills that match, kernels of similar tasks."""
    return synthesis.find_starts(
        task,
        p["target"],
        p["language"],
        user=Candidate(p["start"], p["language"]) if p["start"] else None,
        skills=sorted(shared.library().skills(), key=lambda s: -s.page.standing)
        if p["skills"]
        else (),
        similar=[experience.lent(s) for s in similar if s.candidate.language == p["language"]][
            : experience.LENT
        ],
    )


async def _joinable(shared: Shared, p: dict[str, Any]) -> SessionRecord | None:
    """The open session of the same task, target and language, found without examining the task
    again: one of the same file, where the text, the held-out companion and all that was loaded from
    the folder are as they were. Others may turn out to be the same once examined."""
    store = await shared.store()

    def find() -> SessionRecord | None:
        for summary in store.sessions.list("open"):
            record = summary.session
            same = (record.target, record.language, str(record.goal)) == (
                p["target"],
                p["language"],
                p["goal"],
            )
            if (
                not same
                or to_json(record.policy) != p["policy"]
                or not _unchanged(store.tasks.get(record.task), record, p)
            ):
                continue
            # a spent one can only be finished
            if record.budget.exceeded(store.sessions.spent(record.id)) is None:
                return record
        return None

    return await shared.thread(find)


def _unchanged(task: Task, record: SessionRecord, p: dict[str, Any]) -> bool:
    """Whether to examine the task would find the one of this session again."""
    if (task.source, record.options.get("path"), record.options.get("beside")) != (
        p["source"],
        p["path"],
        p["beside"],
    ):
        return False
    return inputs.digest(inputs.Loaded(p["source"], p["path"]), task.neighbours) == task.digest


async def _joined(shared: Shared, record: SessionRecord, p: dict[str, Any]) -> JobView:
    result = Opened(await looking.session(shared, record), True, _differences(record, p))
    return JobView("", "open", "done", record.id, result=result)


def _created(store: Store, new: NewSession, name: str, fresh: bool) -> tuple[SessionRecord, bool]:
    """The session and whether it belongs to an earlier call; one of this name is this job's own,
    made before a crash."""
    if fresh:
        return store.sessions.create(new, name), False
    record, there = store.sessions.join(new, name)
    return record, there and record.id != name


def _differences(record: SessionRecord, p: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if to_json(record.budget) != p["budget"]:
        found.append(
            f"its budget is {to_json(record.budget)}; another budget needs a session of its own"
        )
    if record.selection != p["selection"]:
        found.append(f"its selection policy is {record.selection}")
    if (inject := record.options.get("inject", 0.0)) != p.get("inject", 0.0):
        found.append(
            f"its asks show a kernel of a similar task with a probability of {inject or 0:g}"
        )
    if (tune := record.options.get("tune", 0.0)) != p.get("tune", 0.0):
        found.append(f"its parameters are searched in {tune or 0:g} of its budget")
    if p["python"] and record.python != p["python"]:
        found.append(f"it evaluates with {record.python}")
    return tuple(found)


def _decoded(cls: type[Any], data: Any) -> Any:
    try:
        return from_json(cls, data)
    except CodecError as error:
        raise UsageError(str(error), "Give only the fields that it names.") from None


def _slug(path: str) -> str:
    file = Path(path)
    name = (
        file.parent.name + file.stem.removeprefix("task")
        if file.stem == "task" or file.stem.startswith("task_")
        else file.stem
    )
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].rstrip("_") or "task"


async def check_opened(shared: Shared, session_id: str, opening_is_fine: bool) -> None:
    """Raises NotFound for an unknown session, and Conflict for one that is still being opened or
    could not be."""
    store = await shared.store()
    try:
        await shared.thread(store.sessions.get, session_id)
    except NotFound:
        job = next(
            (
                j
                for j in await shared.jobs.list()
                if j.kind == "open" and j.payload.get("session") == session_id
            ),
            None,
        )
        if job is None:
            raise
        if not job.over and not opening_is_fine:
            raise Conflict(
                f"session {session_id} is still being opened by job {job.id}",
                "Wait for it, then call again.",
                Action("wait", job=job.id),
            ) from None
        if job.over:
            why = job.error["message"] if job.error else job.state
            raise NotFound(
                f"session {session_id} was not opened: {why}",
                "Fix that and open it again.",
                Action("open_session"),
            ) from None
