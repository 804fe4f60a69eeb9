"""The judge of another machine keeps the contract of executors, and says what the network does."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from harness.types import Candidate, ComparisonRequest, EvaluationRequest, to_json
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable, UsageError
from kevolve_mcp.executors.base import Executor, ProgressEvent
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.executors.remote import JUDGE_PATH, JudgeCall, RemoteExecutor
from kevolve_mcp.executors.testing import ExecutorConformance, OpenJudge, Texts
from kevolve_mcp.server.context import App, deferred
from kevolve_mcp.server.file_access import FilesBelow
from kevolve_mcp.server.http import Limits
from kevolve_mcp.server.http.judge_endpoint import JudgeEndpoint
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings
from tests.server.serving import TOKEN, Serving

TASK = "class Model: pass\n"
CORRECT = "# fake: speedup=1.5\nclass ModelNew: pass\n"
SLOW = "# fake: seconds=30\nclass ModelNew: pass\n"


def remote(serving: Serving, token: str = TOKEN, path: str = JUDGE_PATH) -> RemoteExecutor:
    return RemoteExecutor(serving.url.removesuffix("/mcp") + path, token, local=True)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("judged")
    with Serving(folder / "home", folder) as running:
        yield running


class TestRemoteExecutor(ExecutorConformance):
    served: Serving

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, serving: Serving) -> Iterator[OpenJudge]:
        cls.served = serving
        with asyncio.Runner() as runner:
            executor = cls().executor()
            yield OpenJudge(runner.run, executor)
            runner.run(executor.close())

    def executor(self) -> Executor:
        return remote(self.served)

    def texts(self) -> Texts:
        return Texts(
            task=TASK,
            refused="def nothing(): pass\n",
            correct=CORRECT,
            incorrect="# fake: status=incorrect\nclass ModelNew: pass\n",
            slow=SLOW,
        )


@pytest.mark.anyio
async def test_a_server_of_another_kind_or_token_is_told(serving: Serving) -> None:
    async with remote(serving, "x" * 20) as executor:
        with pytest.raises(UsageError, match="the bearer token is wrong"):
            await executor.describe()
    async with remote(serving, path="/elsewhere") as executor:
        with pytest.raises(Unavailable, match="HTTP status 404") as other:
            await executor.describe()
        assert "same version" in other.value.hint
    async with RemoteExecutor("http://127.0.0.1:9/judge", TOKEN, local=True) as executor:
        with pytest.raises(Unavailable, match="no server answers"):
            await executor.describe()


@pytest.mark.anyio
async def test_a_server_that_dies_leaves_the_candidate_unjudged(tmp_path: Path) -> None:
    with Serving(tmp_path / "home", tmp_path) as serving:
        async with remote(serving) as executor:
            task = await executor.open_task(TASK, "", "cpu")
            async with anyio.create_task_group() as group:
                group.start_soon(killed_soon, serving)
                with pytest.raises(EvaluatorUnavailable, match="was lost"):
                    await executor.evaluate(task, request(SLOW), "cpu")
            serving.start()  # it knows nothing of the task, and opens it again
            assert (await executor.evaluate(task, request(CORRECT), "cpu")).status == "correct"


async def killed_soon(serving: Serving) -> None:
    await anyio.sleep(0.5)
    serving.stop(signal.SIGKILL)


@pytest.mark.anyio
async def test_who_hangs_up_ends_the_work(tmp_path: Path) -> None:
    judge = FakeExecutor()
    async with judging(tmp_path, judge) as (app, _):
        gone = anyio.Event()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(asked, app, call(SLOW), gone)
                while not judge.started:
                    await anyio.sleep(0.01)
                gone.set()
    assert judge.cancelled == [Candidate(SLOW, "cpp").digest]


@pytest.mark.anyio
async def test_nonsense_is_the_callers_fault(tmp_path: Path) -> None:
    async with judging(tmp_path, FakeExecutor(), Limits(body_bytes=20_000)) as (app, _):
        for body, status, said in (
            (b"[", 400, "not a call of the judge"),
            (b"[" * 10_000, 400, "not a call of the judge"),
            (b"{}", 400, "operation"),
            (b'{"operation": "shell"}', 400, "operation"),
            (b'{"operation": "describe", "python": "/bin/sh"}', 400, "unknown field"),
            (b" " * 20_001, 413, "more than 20000 bytes"),
            (changed(effort=1e6), 400, "1 to 8 are accepted"),
            (changed(effort=10**400), 400, "int too large"),
            (changed(policy={"memory_gib": -1}), 400, "memory_gib must be positive"),
            (changed(earlier={"rounds": {"default": {"eager": [[]]}}}), 400, "no rounds"),
            (changed(candidate={"source": "\ud800", "language": "cpp"}), 400, "surrogates"),
            (changed(cases=["\udc00"]), 400, "surrogates"),
            (b'{"operation": "open_task", "source": "\\ud800"}', 400, "surrogates"),
        ):
            code, text = await asked(app, body)
            assert (code, said in text) == (status, True), text
        missing = json.dumps({"operation": "evaluate", "source": TASK, "target": "cpu"}).encode()
        two = to_json(ComparisonRequest((Candidate("x", "cpp"), Candidate("y", "cpp"))))
        compare = {"operation": "compare", "source": TASK, "target": "cpu"}
        twice = json.dumps({**compare, "comparison": {**two, "cases": ["default"] * 2}}).encode()
        for body, said in (
            (missing, "nothing to evaluate"),
            (changed(cases=["nope"]), "not a case of the task"),
            (changed(cases=["default", "default"]), "is repeated"),
            (twice, "is repeated"),
            (call(CORRECT).replace(b'"cpu"', b'"tpu"'), "unknown target 'tpu'"),
        ):
            code, text = await asked(app, body)
            assert code == 200
            error = json.loads(text.splitlines()[-1])["error"]
            assert (error["code"], said in error["message"]) == ("usage", True), error
        code, text = await asked(app, changed(cases=["default"]))
        assert "result" in json.loads(text.splitlines()[-1])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b"[1]",
        b'{"error": [1]}',
        b'{"error": {"code": [], "message": "x"}}',
        b'{"error": {"code": "usage", "message": {}}}',
        b'{"event": 1}',
        b'{"event": {"stage": "open"}}',
        b'{"result": 1}',
    ],
    ids=lambda line: line[:40].decode(),
)
async def test_a_server_that_answers_otherwise_is_told(line: bytes) -> None:
    seen: list[ProgressEvent] = []
    async with answering(line) as executor:
        with pytest.raises(Unavailable, match="does not answer like a judge"):
            await executor.open_task(TASK, "", "cpu", progress=seen.append)
    assert not seen


@pytest.mark.anyio
async def test_a_list_or_a_refusal_that_is_none_is_told() -> None:
    async with answering(b'{"result": 1}') as executor:
        with pytest.raises(Unavailable, match="does not answer like a judge"):
            await executor.devices()
        with pytest.raises(Unavailable, match="does not answer like a judge"):
            await executor.interpreters()
    for body in (b"[" * 100_000, b'{"error": {"data": [1]}}'):
        async with answering(body, status=400) as executor:
            with pytest.raises(Unavailable, match="does not answer like a judge"):
                await executor.describe()


@pytest.mark.anyio
async def test_an_operator_who_chose_the_tasks_is_heard(tmp_path: Path) -> None:
    file_access = FilesBelow([tmp_path], task_texts=False)
    async with judging(tmp_path, FakeExecutor(), file_access=file_access) as (app, _):
        _, text = await asked(app, call(CORRECT))
    assert "accepts no task as text" in json.loads(text)["error"]["message"]


def request(source: str) -> EvaluationRequest:
    return EvaluationRequest(Candidate(source, "cpp"))


def call(source: str) -> bytes:
    return changed(candidate=to_json(Candidate(source, "cpp")))


def changed(**fields: Any) -> bytes:
    """A call with an evaluation of other fields."""
    found = to_json(JudgeCall("evaluate", TASK, "cpu", evaluation=request(CORRECT)))
    found["evaluation"].update(fields)
    return json.dumps(found).encode()


@asynccontextmanager
async def answering(line: bytes, status: int = 200) -> AsyncIterator[RemoteExecutor]:
    """An executor whose server gives one answer to everything."""

    async def answer(stream: ByteStream) -> None:
        async with stream:
            while b"}" not in await stream.receive():
                pass
            head = f"HTTP/1.1 {status} Said\r\nconnection: close\r\n\r\n".encode()
            await stream.send(head + line + b"\n")

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, answer)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}{JUDGE_PATH}"
        async with RemoteExecutor(url, TOKEN, local=True) as executor:
            yield executor
        group.cancel_scope.cancel()


@asynccontextmanager
async def judging(
    folder: Path,
    judge: FakeExecutor,
    limits: Limits | None = None,
    file_access: FilesBelow | None = None,
) -> Any:
    """The application around an executor of this process."""
    settings = Settings(home=folder / "home")
    found = JudgeEndpoint(limits or Limits())
    async with deferred(lambda: Service(settings, lambda python, near: judge)) as later:
        found.attach(App(later, settings, file_access or FilesBelow([folder])))
        yield found, later


async def asked(
    app: JudgeEndpoint, body: bytes, gone: anyio.Event | None = None
) -> tuple[int, str]:
    """Status and text of the answer; the caller hangs up at `gone`."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    status, text = 0, ""

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await (gone or anyio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, text
        status = message.get("status", status)
        text += message.get("body", b"").decode()

    await app({"type": "http", "method": "POST", "headers": []}, receive, send)
    return status, text
