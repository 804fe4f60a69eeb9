"""One background job as every surface shows it, and the error of a failed job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.types import from_json
from kevolve_mcp.actions import Action
from kevolve_mcp.store import JobRecord, JobState

from .results import Compared, Evaluated, Finished, Opened, Tuned
from .sessions import Left

if TYPE_CHECKING:
    from kevolve_mcp.executors import ProgressEvent

JobKind = Literal[
    "open", "compile", "check", "profile", "ablation", "submit", "compare", "tune", "finish"
]
Result: TypeAlias = Opened | Evaluated | Compared | Tuned | Finished


@dataclass(frozen=True)
class Error:
    """What went wrong, in the form of `KEvolveError.as_dict`."""

    code: str
    message: str
    hint: str = ""
    actions: tuple[Action, ...] = ()
    retryable: bool = False


@dataclass(frozen=True)
class Job:
    """A background job."""

    id: str
    """Its id, "" where the store answered at once."""
    kind: JobKind
    state: JobState
    session_id: str = ""
    stage: str = ""
    message: str = ""
    fraction: float = 0.0
    """How much of it is done, 0 to 1."""
    eta_s: float | None = None
    """An estimate of the seconds left."""
    queue: int = 0
    """The number of this server's evaluations that run or wait before it."""
    created: float = 0.0
    """Seconds of the epoch."""
    finished: float | None = None
    """Seconds of the epoch."""
    result: Result | None = None
    error: Error | None = None
    """Why it failed."""
    left: Left | None = None
    """What is left of its session's budget; None without a budget or once the session ended."""


def job(
    record: JobRecord,
    session: str,
    progress: ProgressEvent,
    *,
    queue: int = 0,
    eta_s: float | None = None,
    result: Result | None = None,
    left: Left | None = None,
) -> Job:
    """Show a job.

    Args:
        record: The domain's value.
        session: The session it belongs to, also while that is being opened.
        progress: Its latest progress.
        queue: The number of evaluations that run or wait before it.
        eta_s: An estimate of the seconds left.
        result: The result of a finished job; None where only its state is shown.
        left: What is left of its session's budget.
    """
    lost = record.state == "lost"
    return Job(
        id=record.id,
        kind=record.kind,  # type: ignore[arg-type]
        state="running" if lost and result is None else record.state,
        session_id=session,
        stage=progress.stage,
        message="its process ended; it will be run again" if lost else progress.message,
        fraction=progress.fraction,
        eta_s=eta_s,
        queue=queue,
        created=record.created,
        finished=record.finished,
        result=result,
        error=from_json(Error, record.error) if record.error else None,
        left=left,
    )


def answered(kind: JobKind, session: str, result: Result, left: Left | None = None) -> Job:
    """Show a result that is already known as a finished job without an id."""
    return Job("", kind, "done", session, result=result, left=left)
