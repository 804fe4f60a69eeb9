"""A home of its own and the scripted executor for every test of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client
from typer.testing import CliRunner, Result

from kevolve_mcp.cli import serve
from kevolve_mcp.cli.backend import local
from kevolve_mcp.sessions import background
from tests.driver.fake_server import fake_server, scripted

FAKE_SERVER = Path(__file__).parents[1] / "driver" / "fake_server.py"
Kevolve = Callable[..., Result]
stdio = local.stdio  # the real one; a fixture replaces it

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


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this test; the current folder is another empty one."""
    for name in [n for n in os.environ if n.startswith("KEVOLVE_")]:
        monkeypatch.delenv(name)
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("KEVOLVE_HOME", str(home))
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path / "cache"))
    # what a test finds must not depend on how long an author took
    monkeypatch.setattr(background, "PAUSE_S", 3600.0)
    monkeypatch.setattr(local, "open_executor", scripted)
    monkeypatch.setattr(local, "make_server", fake_server)
    monkeypatch.setattr(local, "stdio", lambda log: lambda: Client(fake_server()))
    monkeypatch.chdir(here)
    return home


@pytest.fixture
def server_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kevolve optimize` starts its server as a process, as it does in use; without this fixture it
    lives in the test's."""
    monkeypatch.setattr(local, "stdio", stdio)
    monkeypatch.setattr(serve, "SERVER", ("-P", str(FAKE_SERVER)))


@pytest.fixture
def kevolve() -> Kevolve:
    """Runs the program in this process: `kevolve("tree", "rows-7f3a")`."""
    from kevolve_mcp.cli import app

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return run


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task folder with task.py and start.py."""
    folder = tmp_path / "scale"
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    (folder / "start.py").write_text(START)
    return folder
