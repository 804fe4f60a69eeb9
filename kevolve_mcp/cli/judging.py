"""Judging a list of candidates through an executor: what `kevolve evaluate` does, apart from
printing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.types import Candidate, EvaluationRequest, Policy, Purpose, Task
from kevolve_mcp.errors import EvaluatorUnavailable, UsageError
from kevolve_mcp.executors.base import Executor, Progress, ProgressEvent

from .calls import advice
from .files import find_task, read_text
from .options import parse_target
from .verdicts import Verdict

T = TypeVar("T")
ATTEMPTS = 3  # an evaluator that fails says nothing about the candidate: try again twice


@dataclass(frozen=True)
class Entry:
    """One candidate: its name as the user gave it, and its text or the reason why there is none."""

    label: str
    candidate: Candidate | UsageError


@dataclass(frozen=True)
class Order:
    """What to judge, under which task and how. reference_cases: of a package, the cases that it
    hands to the reference."""

    task: Path
    entries: tuple[Entry, ...]
    policy: Policy
    target: str
    purpose: Purpose
    reference_cases: tuple[str, ...] | None = None


def order_candidates(
    task: Path | None,
    candidates: tuple[Path, ...],
    policy: Policy,
    target: str,
    language: str,
    *,
    quick: bool,
) -> Order:
    """Files under a task. A file that cannot be read becomes an entry of its own; raises UsageError
    for anything else."""
    usual = parse_target(target).usual_language
    if task is None:
        raise UsageError(
            "no task named",
            "kevolve evaluate TASK CANDIDATE...  or  kevolve evaluate --package DIR",
        )
    if not candidates:
        raise UsageError(
            "no candidate named",
            "kevolve evaluate TASK CANDIDATE...; `kevolve template TASK` writes a first one.",
        )
    entries = tuple(_entry(path, language or usual) for path in candidates)
    return Order(find_task(task), entries, policy, target, "search" if quick else "confirm")


def order_package(folder: Path, policy: Policy, *, quick: bool) -> Order:
    """An exported package, called as a user calls it. Raises NotFound and Conflict when it is none
    or was changed.

    Library calls are allowed in it: by design it hands cases that its kernel does not win to the
    reference.
    """
    from kevolve_mcp.export import package_candidate, read_package

    package = read_package(folder.expanduser().absolute())
    entry = Entry(str(folder), package_candidate(package.path))
    allowed = replace(policy, library_calls="allow")
    manifest = package.manifest
    purpose: Purpose = "search" if quick else "export"
    return Order(
        package.task_path, (entry,), allowed, manifest.target, purpose, manifest.reference_cases
    )


def _entry(path: Path, language: str) -> Entry:
    try:
        return Entry(str(path), Candidate(read_text(path, "candidate"), language))
    except UsageError as error:
        return Entry(str(path), error)


async def opened(
    executor: Executor, what: Order, announce: Callable[[str], None], *, fresh: bool = False
) -> Task:
    """The order's task. fresh: see Executor.open_task. Raises TaskRefused and Unavailable: then
    nothing can be judged."""
    announce(f"opening {what.task}")
    source = read_text(what.task, "task")
    return await executor.open_task(
        source, str(what.task), what.target, fresh=fresh, progress=telling(announce)
    )


async def judge(
    executor: Executor, task: Task, what: Order, announce: Callable[[str], None]
) -> AsyncIterator[Verdict]:
    """One verdict per candidate, in order. A candidate that cannot be read or judged does not stop
    the others. Raises Unavailable."""
    progress = telling(announce)
    for entry in what.entries:
        if isinstance(entry.candidate, UsageError):
            yield Verdict(
                entry.label, "unreadable", entry.candidate.message, advice(entry.candidate)
            )
            continue
        announce(f"judging {entry.label}")
        request = EvaluationRequest(entry.candidate, purpose=what.purpose, policy=what.policy)
        try:
            evaluation = await tried(
                partial(executor.evaluate, task, request, what.target, progress=progress)
            )
        except EvaluatorUnavailable as error:
            yield Verdict(entry.label, "unavailable", error.message, advice(error))
        else:
            yield Verdict.of(entry.label, evaluation, what.reference_cases)


def telling(announce: Callable[[str], None]) -> Progress:
    """Signs of life as lines for a reader."""

    def progress(event: ProgressEvent) -> None:
        announce(f"{event.stage}: {event.message}")

    return progress


async def tried(call: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
    """What the call comes to, up to `attempts` times. Raises the EvaluatorUnavailable of the last
    one."""
    try:
        return await call()
    except EvaluatorUnavailable:
        if attempts == 1:
            raise
    return await tried(call, attempts - 1)
