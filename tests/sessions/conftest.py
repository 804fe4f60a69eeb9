"""A home with a task in it, and services whose executors are fake."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kevolve_mcp import api
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import Service, background
from kevolve_mcp.sessions.types import (
    FinishRequest,
    SessionSpec,
    SubmitRequest,
    Text,
)
from kevolve_mcp.settings import Settings

TASK = (
    "# fake: name=scale\n# fake: operators=aten.mul.Tensor\nclass Model: pass\n\n\n"
    "def get_inputs(): return []\n"
)


def kernel(speedup: float = 1.5, extra: str = "", **markers: object) -> str:
    """A candidate whose fate is scripted."""
    lines = [f"# fake: {name}={value}" for name, value in {"speedup": speedup, **markers}.items()]
    return "\n".join([*lines, "class ModelNew: pass", extra, ""])


@dataclass
class Bench:
    """One home; `service()` makes services on it, all with the same executor unless told
    otherwise."""

    home: Path
    executor: FakeExecutor = field(default_factory=FakeExecutor)

    def service(self, executor: FakeExecutor | None = None) -> Service:
        return Service(
            Settings(home=self.home / "home"), lambda python, near: executor or self.executor
        )

    def task(self, text: str = TASK, name: str = "scale.py") -> Text:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return Text(path=str(path))


async def opened(service: Service, request: SessionSpec) -> str:
    """The id of the session, once it is open."""
    job = await service.open(request)
    job = await service.wait(job.id, 20) if job.id else job
    assert job.state == "done", job.error
    return job.session_id


async def told(service: Service, session: str, source: str, **arguments: object) -> api.Evaluated:
    """A candidate submitted and evaluated."""
    request = SubmitRequest(session, Text(source=source), **arguments)  # type: ignore[arg-type]
    return result(await finished(service, await service.submit(request)))


async def finished(service: Service, job: api.Job) -> api.Job:
    return await service.wait(job.id, 20) if job.id else job


async def finish(service: Service, session: str, **arguments: object) -> api.Job:
    return await finished(service, await service.finish(FinishRequest(session, **arguments)))  # type: ignore[arg-type]


def result(job: api.Job) -> api.Evaluated:
    assert job.state == "done", job.error
    assert isinstance(job.result, api.Evaluated)
    return job.result


@pytest.fixture(autouse=True)
def no_parameter_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test finds must not depend on how long it took."""
    monkeypatch.setattr(background, "PAUSE_S", 3600.0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def killed(home: Path, task: str) -> list[str]:
    """Session, job and ask of a process that was killed at work on this home."""
    command = [sys.executable, "-m", "tests.sessions.holder", str(home), task, "0.5"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    with process.stdout:
        found = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
    return found
