"""The judge of another machine keeps the contract of executors, and says what the network does."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.types import Candidate, EvaluationRequest, to_json
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable, UsageError
from kevolve_mcp.executors.base import Executor
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.executors.remote import JUDGE_PATH, JudgeCall, RemoteExecutor
from kevolve_mcp.executors.testing import ExecutorConformance, OpenJudge, Texts
from kevolve_mcp.server.context import App
from kevolve_mcp.server.deferred import deferred
from kevolve_mcp.server.http import Limits
from kevolve_mcp.server.http.judging import Judging
from kevolve_mcp.server.reach import Below
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
            (b"[", 400, "no call of the judge"),
            (b"[" * 10_000, 400, "no call of the judge"),
            (b"{}", 400, "operation"),
            (b'{"operation": "shell"}', 400, "operation"),
            (b'{"operation": "describe", "python": "/bin/sh"}', 400, "unknown field"),
            (b" " * 20_001, 413, "more than 20000 bytes"),
        ):
            code, text = await asked(app, body)
            assert (code, said in text) == (status, True), text
        missing = json.dumps({"operation": "evaluate", "source": TASK, "target": "cpu"}).encode()
        code, text = await asked(app, missing)
        assert code == 200
        assert json.loads(text.splitlines()[-1])["error"]["code"] == "usage"


@pytest.mark.anyio
async def test_an_operator_who_chose_the_tasks_is_heard(tmp_path: Path) -> None:
    reach = Below([tmp_path], task_texts=False)
    async with judging(tmp_path, FakeExecutor(), reach=reach) as (app, _):
        _, text = await asked(app, call(CORRECT))
    assert "runs no task from a text" in json.loads(text)["error"]["message"]


def request(source: str) -> EvaluationRequest:
    return EvaluationRequest(Candidate(source, "cpp"))


def call(source: str) -> bytes:
    found = JudgeCall("evaluate", TASK, "cpu", evaluation=request(source))
    return json.dumps(to_json(found)).encode()


@asynccontextmanager
async def judging(
    folder: Path, judge: FakeExecutor, limits: Limits | None = None, reach: Below | None = None
) -> Any:
    """The application around an executor of this process."""
    settings = Settings(home=folder / "home")
    found = Judging(limits or Limits())
    async with deferred(lambda: Service(settings, lambda python, near: judge)) as later:
        found.attach(App(later, settings, reach or Below([folder])))
        yield found, later


async def asked(app: Judging, body: bytes, gone: anyio.Event | None = None) -> tuple[int, str]:
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
