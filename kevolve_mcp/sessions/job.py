"""One kind of work that outlives its call and, through the store, the process that does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from harness.types import CodecError, from_json, to_json
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.store import JobRecord

from .parameters import Parameters

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
