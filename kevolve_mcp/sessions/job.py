"""One kind of work that outlives its call and, through the store, the process that does it.

What it needs in order to be run by any process are frozen values that the store keeps as JSON.
Another version of KEvolve may not be able to read them; it refuses the job then.
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
    """session: the one that the job belongs to, "" for none."""

    @property
    def session(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class OpenParameters:
    """A session to be opened."""

    name: str
    """Of the session, unless an equal one is joined."""
    task: Loaded
    neighbours: tuple[str, ...]
    """See `inputs.beside`."""
    spec: SessionSpec
    """What was left out is filled in: the language, the selection policy, the text to start from.
    Of the task it has the path only."""

    @property
    def session(self) -> str:
        """None before it is open."""
        return ""


@dataclass(frozen=True)
class Location:
    """Where a kernel is measured: for a session, or for a task that was handed in with it. target:
    "" for the session's own."""

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
    """A node to be. ask: the seq of the one that it answers. assumed_root: nobody said a word about
    parents; root_named: the root was named as the only one. role: of a kernel that no ask wanted,
    None to take what follows from its parents. author: who hands it in, see `asking.holder`. The
    rest is as in SubmitRequest."""

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
    """candidates: digests, the one that the others are held against first. labels: their names."""

    where: Location
    candidates: tuple[str, ...]
    labels: tuple[str, ...]
    effort: float = 1.0

    @property
    def session(self) -> str:
        return self.where.session


@dataclass(frozen=True, kw_only=True)
class TuneParameters:
    """count: choices of TUNABLES besides the file as it is."""

    where: Location
    candidate: str
    count: int

    @property
    def session(self) -> str:
        return self.where.session


@dataclass(frozen=True, kw_only=True)
class FinishParameters:
    """node: the one that was named, "" for the best."""

    session: str
    node: str = ""
    include_files: bool = False


P = TypeVar("P", bound=Parameters)
R = TypeVar("R")
T = TypeVar("T")


class JobKind(ABC, Generic[P, R]):
    """From parameters to a result, both frozen dataclasses that the store keeps as JSON.

    usual_s: how long one takes until that was measured, in seconds.
    """

    kind: api.JobKind
    parameters: type[P]
    result: type[R]
    usual_s: float = 20.0

    @abstractmethod
    async def run(self, parameters: P, progress: Progress) -> R:
        """The result, as it is stored and shown. Repeatable: a job whose process died is run again
        by another one."""

    def same(self, parameters: P) -> object:
        """Equal for calls that ask for the same: the second one joins the job of the first."""
        return parameters

    def read(self, record: JobRecord) -> P:
        """Raises Conflict for a job of a version of KEvolve that wrote other parameters."""
        return _decoded(self.parameters, record.payload, record)

    def shown(self, record: JobRecord) -> R:
        """The result of a job that is done. Raises Conflict as `read` does."""
        return _decoded(self.result, record.result, record)


def of_another_version(record: JobRecord, detail: str) -> Conflict:
    return Conflict(
        f"{record.kind} job {record.id} was written by another version of KEvolve: {detail}",
        "The same call starts it anew; what it had evaluated is in the store.",
    )


def _decoded(cls: type[T], data: Any, record: JobRecord) -> T:
    try:
        return from_json(cls, data)
    except CodecError as error:
        raise of_another_version(record, str(error)) from None


def encoded(value: object) -> dict[str, Any]:
    """A frozen dataclass as the store keeps it."""
    data: dict[str, Any] = to_json(value)
    return data
