"""Judging a list of candidates through an executor: `kevolve evaluate` without the printing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.types import Candidate, EvaluationRequest, Policy, Purpose, Task
from kevolve_mcp.errors import EvaluatorUnavailable, UsageError
from kevolve_mcp.executors.base import Executor, Progress, ProgressEvent, tried

from .calls import advice
from .files import find_task, read_text
from .options import parse_target
from .verdicts import Verdict

if TYPE_CHECKING:
    from .meeting import FileMeeting


@dataclass(frozen=True)
class Entry:
    """One candidate: its name as the user gave it, and its text or why it cannot be read."""

    label: str
    candidate: Candidate | UsageError


@dataclass(frozen=True)
class FileOrder:
    """What to judge, for which task and how. reference_cases: the cases that a package hands to the
    reference."""

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
) -> FileOrder:
    """Return an order for files. A candidate that cannot be read becomes an entry with the reason;
    raises UsageError for anything else."""
    usual = parse_target(target).usual_language
    if task is None:
        raise UsageError(
            "no task named",
            "kevolve evaluate TASK CANDIDATE...  or  kevolve evaluate --package DIR",
        )
    if not candidates:
        raise UsageError(
            "no candidate named",
            "kevolve evaluate TASK CANDIDATE...; `kevolve template TASK` writes a file to start "
            "from.",
        )
    entries = tuple(_entry(path, language or usual) for path in candidates)
    return FileOrder(find_task(task), entries, policy, target, "search" if quick else "confirm")


def order_package(folder: Path, policy: Policy, *, quick: bool) -> FileOrder:
    """Return an order for an exported package, called as a user calls it. Raises NotFound when
    there is none, and Conflict when it was changed.

    Library calls are allowed: by design a package hands cases that its kernel does not win to the
    reference.
    """
    from kevolve_mcp.export import package_candidate, read_package

    package = read_package(folder.expanduser().absolute())
    entry = Entry(str(folder), package_candidate(package.path))
    allowed = replace(policy, library_calls="allow")
    manifest = package.manifest
    purpose: Purpose = "search" if quick else "export"
    return FileOrder(
        package.task_path, (entry,), allowed, manifest.target, purpose, manifest.reference_cases
    )


def _entry(path: Path, language: str) -> Entry:
    try:
        return Entry(str(path), Candidate(read_text(path, "candidate"), language))
    except UsageError as error:
        return Entry(str(path), error)


@dataclass(frozen=True)
class OpenedOrder:
    """A `FileJudge` through an executor."""

    executor: Executor
    order: FileOrder
    task: Task
    announce: Callable[[str], None]

    async def verdicts(self) -> AsyncIterator[Verdict]:
        progress = progress_to(self.announce)
        for entry in self.order.entries:
            if isinstance(entry.candidate, UsageError):
                yield Verdict(
                    entry.label, "unreadable", entry.candidate.message, advice(entry.candidate)
                )
                continue
            self.announce(f"judging {entry.label}")
            request = EvaluationRequest(
                entry.candidate, purpose=self.order.purpose, policy=self.order.policy
            )
            call = partial(
                self.executor.evaluate, self.task, request, self.order.target, progress=progress
            )
            try:
                evaluation = await tried(call, progress)
            except EvaluatorUnavailable as error:
                yield Verdict(entry.label, "unavailable", error.message, advice(error))
            else:
                yield Verdict.of(entry.label, evaluation, self.order.reference_cases)

    async def meet(self, verdicts: Sequence[Verdict]) -> tuple[FileMeeting | None, list[Verdict]]:
        from .meeting import meet

        return await meet(self, verdicts)


async def opened(
    executor: Executor, order: FileOrder, announce: Callable[[str], None], *, fresh: bool = False
) -> OpenedOrder:
    """Open the order's task. Raises TaskRefused and Unavailable when nothing can be judged.

    Args:
        executor: The executor that judges.
        order: What to judge.
        announce: Takes progress messages.
        fresh: See Executor.open_task.
    """
    announce(f"opening {order.task}")
    source = read_text(order.task, "task")
    task = await executor.open_task(
        source, str(order.task), order.target, fresh=fresh, progress=progress_to(announce)
    )
    return OpenedOrder(executor, order, task, announce)


def progress_to(announce: Callable[[str], None]) -> Progress:
    """Return a progress callback that announces each event as a line."""

    def progress(event: ProgressEvent) -> None:
        announce(f"{event.stage}: {event.message}")

    return progress
