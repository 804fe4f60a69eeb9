"""What every test gets: no settings of the person who runs it, folders of its own, reproducible
property tests."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from kevolve_mcp.executors import LocalExecutor
from kevolve_mcp.executors.testing import OpenJudge

from .fake_nvml import built, fake_nvml

__all__ = ["built", "fake_nvml"]  # fixtures of every test

# Parts of the suite run side by side: torch in each of them takes one core. (A bootstrap took six
# times as long with two.)
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "kevolve", deadline=None, database=None, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("kevolve")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def judge_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for the whole run, its parallel parts included: builds and measured ceilings are keyed by
    content, and cold they cost 20 s. KEVOLVE_TEST_CACHE: a folder that outlives the run."""
    if kept := os.environ.get("KEVOLVE_TEST_CACHE"):
        return Path(kept)
    base = tmp_path_factory.getbasetemp()
    found = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "judge-cache"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture(scope="session")
def judge(judge_cache: Path) -> Iterator[OpenJudge]:
    """One for all that do it no harm: a judge and the servers from which it forks import for ten
    seconds."""
    with asyncio.Runner() as runner:
        executor = LocalExecutor(None, judge_cache)
        yield OpenJudge(runner.run, executor)
        runner.run(executor.close())


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory, judge_cache: Path) -> Iterator[None]:
    """KEVOLVE_* of the environment do not reach the tests. A test that needs a fresh home sets
    KEVOLVE_HOME itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("KEVOLVE_")]:
            patch.delenv(name)
        patch.setenv("KEVOLVE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("KEVOLVE_CACHE", str(judge_cache))
        patch.setenv("KEVOLVE_TIMING_EFFORT", "0.2")  # no test depends on how narrow an interval is
        patch.setenv("KEVOLVE_NATIVE_CACHE", str(tmp_path_factory.mktemp("native")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """A shell that starts a command in the background has it ignore SIGINT, and so would every
    command that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests (`pytest.mark.anyio`) run on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture(scope="session")
def bad_tasks() -> Path:
    """The folder of task files with one fault each; tests/data/README.md lists them."""
    return DATA / "bad_tasks"
