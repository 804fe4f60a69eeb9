"""The real server in memory on a home of its own, with the scripted executor; events and options of
a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from harness.types import Budget
from kevolve_mcp.driver import Driver, Event, Options, RunOutcome, connect
from kevolve_mcp.driver.events import Remark
from kevolve_mcp.driver.options import open_arguments
from kevolve_mcp.sessions.types import SearchOptions, SessionSpec, Text
from kevolve_mcp.synthesis.authors import AskContext, Author, Proposal

from .fake_server import fake_server

TASK = '''"""Scale a tensor."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
'''
START = """# fake: speedup=1.2
TUNABLES = {"UNROLL": [1, 2, 4, 8], "VEC": [4, 8]}
PARAMS = {"UNROLL": 1, "VEC": 4}


class ModelNew:
    pass
"""


class Steady(Author):
    """Answers every ask: a start as it is, anything else with a kernel that only this ask gets;
    markers go into it."""

    name = "steady"

    def __init__(self, *markers: str) -> None:
        self.text = START + "".join(f"# fake: {m}\n" for m in markers)

    async def propose(self, ask: AskContext) -> Proposal:
        if ask.start is not None:
            return Proposal(ask.start.source, ask.language)
        return Proposal(f"{self.text}# for {ask.id}\n", ask.language, f"idea {ask.id}", 1.1)


@dataclass
class Runner:
    """Runs drivers against in-memory servers on one home and keeps what they emitted."""

    options: Options
    events: list[Event] = field(default_factory=list)

    def of(self, kind: type) -> list[Event]:
        return [e for e in self.events if isinstance(e, kind)]

    def changed(self, **changes: Any) -> Options:
        """The options with these fields, of the session or of the run."""
        if "resume" in changes:
            return replace(self.options, session=None, **changes)
        assert self.options.session is not None
        names = {f.name for f in fields(SessionSpec)}
        session = {name: value for name, value in changes.items() if name in names}
        run = {name: value for name, value in changes.items() if name not in names}
        return replace(self.options, session=replace(self.options.session, **session), **run)

    def opening(self, **changes: Any) -> dict[str, Any]:
        """The arguments of session_open of such a run."""
        spec = self.changed(**changes).session
        assert spec is not None
        return open_arguments(spec)

    async def drive(
        self, author: Author | None = None, *, process: bool = False, **changes: Any
    ) -> RunOutcome:
        """process: the server is a process of its own, which ends with the run; else it lives in
        this one."""
        opened = stdio if process else lambda: Client(fake_server())
        async with connect(opened, lambda text: self.events.append(Remark(text))) as server:
            options = self.changed(**changes)
            return await Driver(server, author or Steady(), options, self.events.append).run()

    def run(
        self, author: Author | None = None, *, process: bool = False, **changes: Any
    ) -> RunOutcome:
        async def body() -> RunOutcome:
            return await self.drive(author, process=process, **changes)

        return anyio.run(body)


def stdio() -> Client:
    """A server process of its own."""
    script = Path(__file__).with_name("fake_server.py")
    return Client(
        stdio_client(
            StdioServerParameters(
                command=sys.executable, args=["-P", str(script)], env=dict(os.environ)
            )
        )
    )


def write_task(folder: Path, start: str = START, markers: Sequence[str] = ()) -> Path:
    """A task folder; markers steer the scripted executor."""
    folder.mkdir(exist_ok=True)
    (folder / "task.py").write_text("\n".join([*(f"# fake: {m}" for m in markers), TASK]))
    (folder / "start.py").write_text(start)
    return folder / "task.py"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    for name in [n for n in os.environ if n.startswith("KEVOLVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KEVOLVE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path / "cache"))
    task = write_task(tmp_path / "scale")
    return Runner(
        Options(
            SessionSpec(
                Text(path=str(task)),
                budget=Budget(evaluations=6),
                search=SearchOptions(skills=False, tune=0),
            ),
            wait_s=2,
        )
    )
