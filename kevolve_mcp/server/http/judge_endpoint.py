"""The judge over HTTP, for evaluations outside of any session: `executors.remote` asks, the
executors of the sessions answer, so that all queue for the same device.

A request is a JudgeCall as JSON. The answer is lines of JSON: `{"event": …}` for progress, `{}` to
keep the connection alive, and at last `{"result": …}` or `{"error": …}`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from harness.types import Task, from_json, to_json
from kevolve_mcp.errors import KEvolveError, UsageError, innermost
from kevolve_mcp.executors.base import Executor, Progress, ProgressEvent
from kevolve_mcp.executors.remote import HEARTBEAT_S, JudgeCall

from ..arguments import parse_target
from ..context import App
from ..diagnosis import diagnose
from .gate import refusal

if TYPE_CHECKING:
    from .options import Limits

TASKS_KEPT = 32

log = logging.getLogger(__name__)


class JudgeEndpoint:
    """An ASGI application. A client that disconnects ends the work of its call.

    limits: those of the server; they bound a request's body.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._app: App | None = None
        self._tasks: dict[tuple[str, str, bool], Task] = {}
        self._operations: dict[str, _Operation] = {
            "describe": self._describe,
            "open_task": self._open,
            "evaluate": self._evaluate,
            "compare": self._compare,
            "interpreters": self._interpreters,
            "devices": self._devices,
            "diagnose": self._diagnose,
        }

    def attach(self, app: App) -> None:
        """Set what calls can reach, once the server has started."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = await self._read(Request(scope, receive))
        if isinstance(call, JudgeCall):
            await self._stream(call, receive, send)
        else:
            await call(scope, receive, send)

    async def _read(self, request: Request) -> JudgeCall | Response:
        """The call in a request, or the refusal."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._limits.body_bytes:
                most = self._limits.body_bytes
                return refusal(
                    413, f"the request has more than {most} bytes", "Send a smaller request."
                )
        try:
            data = json.loads(body)
            # refuses lone surrogates, which cannot be encoded
            json.dumps(data, ensure_ascii=False).encode()
            return from_json(JudgeCall, data)
        except (ValueError, RecursionError) as error:
            hint = "Send a JudgeCall as JSON, and use the same version of client and server."
            return refusal(400, f"this is not a call of the judge: {error}", hint)

    async def _stream(self, call: JudgeCall, receive: Receive, send: Send) -> None:
        """Answer in lines. The work ends with the connection."""
        head = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        said, heard = anyio.create_memory_object_stream[dict[str, Any]](math.inf)
        async with anyio.create_task_group() as group:

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(until_gone)
            group.start_soon(self._work, call, said)
            async with said, heard:
                while True:
                    line: dict[str, Any] = {}
                    with anyio.move_on_after(HEARTBEAT_S):
                        line = await heard.receive()
                    last = "result" in line or "error" in line
                    text = json.dumps(line).encode() + b"\n"
                    await send({"type": "http.response.body", "body": text, "more_body": not last})
                    if last:
                        break
            group.cancel_scope.cancel()

    async def _work(self, call: JudgeCall, said: MemoryObjectSendStream[dict[str, Any]]) -> None:
        def progress(event: ProgressEvent) -> None:
            said.send_nowait({"event": to_json(event)})

        try:
            result = await self._operations[call.operation](call, await self._judge(), progress)
            line = {"result": to_json(result)}
        except Exception as error:
            failure = innermost(error)
            if not isinstance(failure, KEvolveError):
                log.exception("the judge failed at %s", call.operation)
                failure = KEvolveError(f"the server failed: {type(failure).__name__}: {failure}")
            line = {"error": failure.as_dict()}
        said.send_nowait(line)

    async def _judge(self) -> Executor:
        """The executor of the sessions. Raises what making their service raised."""
        return (await self._started().service.get()).executor()

    def _started(self) -> App:
        assert self._app is not None, "a request arrived before the server had started"
        return self._app

    async def _describe(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        return await judge.describe(ceilings=call.ceilings)

    async def _open(self, call: JudgeCall, judge: Executor, progress: Progress) -> Task:
        """Open the task unless this process knows it."""
        parse_target(call.target)
        await self._started().file_access.text("", call.source, "task_")
        key = (hashlib.sha256(call.source.encode()).hexdigest(), call.target, call.timed)
        if call.fresh or key not in self._tasks:
            task = await judge.open_task(
                call.source,
                "",
                call.target,
                timed=call.timed,
                fresh=call.fresh,
                progress=progress,
            )
            self._tasks.pop(key, None)
            self._tasks[key] = task
            while len(self._tasks) > TASKS_KEPT:
                del self._tasks[next(iter(self._tasks))]
        return self._tasks[key]

    async def _evaluate(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        if call.evaluation is None:
            raise UsageError("nothing to evaluate was sent", "Send `evaluation`.")
        task = await self._open(call, judge, progress)
        _check_cases(task, call.evaluation.cases)
        return await judge.evaluate(task, call.evaluation, call.target, progress=progress)

    async def _compare(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        if call.comparison is None:
            raise UsageError("nothing to compare was sent", "Send `comparison`.")
        task = await self._open(call, judge, progress)
        _check_cases(task, call.comparison.cases)
        return await judge.compare(task, call.comparison, call.target, progress=progress)

    async def _interpreters(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        return await judge.interpreters()

    async def _devices(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        return await judge.devices()

    async def _diagnose(self, call: JudgeCall, judge: Executor, progress: Progress) -> Any:
        return await diagnose(judge, self._started().settings)


def _check_cases(task: Task, names: tuple[str, ...]) -> None:
    """Raises UsageError for a name that is no visible case of the task, or is repeated."""
    known = [case.name for case in task.visible_cases]
    if len(set(names) & set(known)) < len(names):
        raise UsageError(
            f"cases {', '.join(map(repr, names))}: one is not a case of the task, or is repeated",
            f"Send some of {', '.join(known)}, each once, or none for all.",
        )


_Operation = Callable[[JudgeCall, Executor, Progress], Awaitable[Any]]
