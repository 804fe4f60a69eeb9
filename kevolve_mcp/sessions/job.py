"""One kind of work that outlives its call and, through the store, the process that does it.

Its parameters are frozen values that the store keeps as JSON, so that any process can run it.
Another version of KEvolve may not be able to read them, and then refuses the job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from harness.types import CodecError, from_json, to_json
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import NOBODY, AuthorId, Role
from kevolve_mcp.store import JobRecord

from .inputs import Loaded
from .types import SessionSpec


class Parameters(Protocol):
    """Parameters of a job. session: the one that the job belongs to, "" for none."""

    @property
    def session(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class OpenParameters:
    """A session to be opened."""

    name: str
    """The name of the session, unless an equal one is joined."""
    task: Loaded
    neighbours: tuple[str, ...]
    """See `inputs.beside`."""
    spec: SessionSpec
    """The request with defaults filled in: language, selection policy, text to start from. Of the
    task it only has the path."""

    @property
    def session(self) -> str:
        """Return "", since the session is not open yet."""
        return ""


@dataclass(frozen=True)
class Location:
    """Where a kernel is measured: for a session, or for a task given with it. target: "" for the
    session's own."""

    session: str = ""
    task: Loaded | None = None
    target: str = ""
    python: str = ""


@dataclass(frozen=True, kw_only=True)
class MeasureParameters:
    """An evaluation without a node. candidate: its digest. repeat, effort: as in KernelRequest."""

    depth: api.Depth
    where: Location
    candidate: str
    repeat: bool = False
    effort: float = 1.0

    @property
    def session(self) -> str:
        return self.where.session


@dataclass(frozen=True, kw_only=True)
class SubmitParameters:
    """A kernel to become a node. ask: the seq of the ask that it answers. assumed_root: no parents
    were given; root_named: only the root was named. role: for a kernel without an ask, None to
    derive it from its parents. author: who submits it, see `asking.holder`. The rest is as in
    SubmitRequest."""

    session: str
    candidate: str
    ask: int | None = None
    parents: tuple[str, ...] = ()
    assumed_root: bool = False
    root_named: bool = False
    role: Role | None = None
    author: AuthorId = NOBODY
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    tokens: int = 0
    usd: float = 0.0
    repeat: bool = False
    effort: float = 1.0


@dataclass(frozen=True, kw_only=True)
class CompareParameters:
    """A comparison. candidates: digests, first the one that the others are compared with. labels:
    their names."""

    where: Location
    candidates: tuple[str, ...]
    labels: tuple[str, ...]
    effort: float = 1.0

    @property
    def session(self) -> str:
        return self.where.session


@dataclass(frozen=True, kw_only=True)
class TuneParameters:
    """A search of parameters. count: choices of TUNABLES besides the unchanged file."""

    where: Location
    candidate: str
    count: int

    @property
    def session(self) -> str:
        return self.where.session


@dataclass(frozen=True, kw_only=True)
class FinishParameters:
    """A finish. node: the one to export, "" for the best."""

    session: str
    node: str = ""
    include_files: bool = False


P = TypeVar("P", bound=Parameters)
R = TypeVar("R")
T = TypeVar("T")


class JobKind(ABC, Generic[P, R]):
    """A kind of job: from parameters to a result, both frozen dataclasses that the store keeps as
    JSON.

    usual_s: the estimated duration in seconds, used until some jobs were measured.
    """

    kind: api.JobKind
    parameters: type[P]
    result: type[R]
    usual_s: float = 20.0

    @abstractmethod
    async def run(self, parameters: P, progress: Progress) -> R:
        """Return the result, as it is stored and shown. It must be repeatable: a job whose process
        died is run again by another one."""

    def same(self, parameters: P) -> object:
        """Return a value that is equal for equal requests: the second call joins the job of the
        first."""
        return parameters

    def read(self, record: JobRecord) -> P:
        """Return a job's parameters. Raises Conflict for a job of a KEvolve version with other
        parameters."""
        return _decoded(self.parameters, record.payload, record)

    def shown(self, record: JobRecord) -> R:
        """Return the result of a finished job. Raises Conflict as `read` does."""
        return _decoded(self.result, record.result, record)


def of_another_version(record: JobRecord, detail: str) -> Conflict:
    return Conflict(
        f"{record.kind} job {record.id} was written by another version of KEvolve: {detail}",
        "Repeat the call to start it anew; its evaluations are in the store.",
    )


def _decoded(cls: type[T], data: Any, record: JobRecord) -> T:
    try:
        return from_json(cls, data)
    except CodecError as error:
        raise of_another_version(record, str(error)) from None


def encoded(value: object) -> dict[str, Any]:
    """Return a frozen dataclass as the store keeps it."""
    data: dict[str, Any] = to_json(value)
    return data
