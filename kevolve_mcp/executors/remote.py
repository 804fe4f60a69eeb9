"""The judge of another machine over HTTP: one call is one request, and the answer comes as lines of
JSON, first progress, then the result or the error.

Only texts are sent: the other side reads none of our files, also none beside a task.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import httpx2

from harness.types import (
    CodecError,
    ComparisonRequest,
    Device,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Interpreter,
    MachineReport,
    Task,
    from_json,
    to_json,
)
from kevolve_mcp.errors import EvaluatorUnavailable, KEvolveError, Unavailable, read_error

from .base import Executor, Progress, ProgressEvent
from .naming import well_named

T = TypeVar("T")

JUDGE_PATH = "/judge"
CONNECT_S = 10.0
HEARTBEAT_S = 10.0
"""Seconds between two lines of an answer; without an event the line is an empty object."""
READ_S = 6 * HEARTBEAT_S

Operation = Literal[
    "describe", "open_task", "evaluate", "compare", "interpreters", "devices", "diagnose"
]


@dataclass(frozen=True)
class JudgeCall:
    """One request. A task is named by its text; the other side opens it again if it must."""

    operation: Operation
    source: str = ""
    """The task file's text."""
    target: str = ""
    timed: bool = True
    fresh: bool = False
    ceilings: bool = False
    evaluation: EvaluationRequest | None = None
    comparison: ComparisonRequest | None = None


class RemoteExecutor(Executor):
    """An `Executor` that uses the judge of a running server.

    Cancelling a call, or losing the connection, ends its work there. A server that is gone raises
    Unavailable on connecting and EvaluatorUnavailable during a call.
    """

    def __init__(self, url: str, token: str, *, local: bool) -> None:
        """Connect with the first call.

        Args:
            url: The judge's URL, ending in JUDGE_PATH.
            token: The bearer token.
            local: Whether it is on this machine: then proxies of the environment are bypassed.
        """
        self._url = url
        self._client = httpx2.AsyncClient(
            headers={"authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
            trust_env=not local,
        )
        self._closed = False

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        return await self.ask(MachineReport, JudgeCall("describe", ceilings=ceilings))

    async def open_task(
        self,
        source: str,
        path: str,
        target: str,
        *,
        timed: bool = True,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> Task:
        call = JudgeCall("open_task", source, target, timed, fresh)
        return well_named(await self.ask(Task, call, progress))

    async def evaluate(
        self,
        task: Task,
        request: EvaluationRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        call = JudgeCall("evaluate", task.source, target, evaluation=request)
        return await self.ask(Evaluation, call, progress)

    async def compare(
        self,
        task: Task,
        request: ComparisonRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> HeadToHead:
        call = JudgeCall("compare", task.source, target, comparison=request)
        return await self.ask(HeadToHead, call, progress)

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return await self.ask(tuple[Interpreter, ...], JudgeCall("interpreters"))

    async def devices(self) -> tuple[Device, ...]:
        return await self.ask(tuple[Device, ...], JudgeCall("devices"))

    async def close(self) -> None:
        self._closed = True
        await self._client.aclose()

    async def ask(self, kind: type[T], call: JudgeCall, progress: Progress | None = None) -> T:
        """Make a call.

        Args:
            kind: The type of the answer.
            call: The call.
            progress: Takes progress events.

        Raises:
            KEvolveError: The other side raised it.
            Unavailable: There is no server, or it answers in another form.
            EvaluatorUnavailable: The connection was lost.
        """
        try:
            return from_json(kind, await self._answer(call, progress))
        except CodecError as error:
            raise _otherwise(self._url, str(error)) from error

    async def _answer(self, call: JudgeCall, progress: Progress | None) -> Any:
        if self._closed:
            raise EvaluatorUnavailable("this executor is closed", "Open a new one.")
        try:
            async with self._client.stream("POST", self._url, json=to_json(call)) as response:
                if response.status_code != 200:
                    raise _refusal(self._url, response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    said = _read(self._url, line)
                    if "result" in said:
                        return said["result"]
                    if "error" in said:
                        raise _told(self._url, said["error"])
                    if progress is not None and "event" in said:
                        progress(from_json(ProgressEvent, said["event"]))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unavailable(
                f"no server answers at {self._url}: {error}", "Check that it is running there."
            ) from error
        except httpx2.TransportError as error:
            raise _lost(self._url, str(error) or type(error).__name__) from error
        raise _lost(self._url, "the answer ended before its result")


def _read(url: str, line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _otherwise(url, str(error)) from error
    if not isinstance(said, dict):
        raise _otherwise(url, f"{line!r:.80} is not an object")
    return said


def _refusal(url: str, status: int, body: bytes) -> KEvolveError:
    """The error in a refusal of the server's HTTP layer."""
    try:
        data = json.loads(body)["error"]["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _otherwise(url, f"HTTP status {status}")
    return _told(url, data)


def _told(url: str, data: Any) -> KEvolveError:
    """The error that the other side raised, if the data is one."""
    if isinstance(data, dict) and all(
        isinstance(text, str)
        for text in (data.get("code"), data.get("message"), data.get("hint", ""))
    ):
        return read_error(data)
    return _otherwise(url, f"{data!r:.80} is not an error")


def _lost(url: str, why: str) -> EvaluatorUnavailable:
    return EvaluatorUnavailable(f"the server at {url} was lost: {why}", "The call can be repeated.")


def _otherwise(url: str, why: str) -> Unavailable:
    return Unavailable(
        f"{url} does not answer like a judge of this version of KEvolve: {why}",
        "Install the same version on both machines.",
    )
