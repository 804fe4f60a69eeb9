"""The judge on this machine: the executor's contract, a killed judge, and the interpreter of the
user's choice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

from harness.native import find_compiler
from harness.types import Candidate, EvaluationRequest
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable, UsageError
from kevolve_mcp.executors import Executor, LocalExecutor
from kevolve_mcp.executors.testing import ExecutorConformance, OpenJudge, Texts

DATA = Path(__file__).parents[1] / "data" / "candidates"
TASK, CORRECT = (DATA / "task.py").read_text(), (DATA / "correct.py").read_text()
pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")


class TestConformance(ExecutorConformance):
    cache: Path

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, judge: OpenJudge, judge_cache: Path) -> OpenJudge:
        cls.cache = judge_cache
        return judge

    def executor(self) -> Executor:
        return LocalExecutor(None, self.cache)

    def texts(self) -> Texts:
        slow = CORRECT.replace(
            "        y = torch.empty_like(x)",
            "        import time\n        time.sleep(3)\n        y = torch.empty_like(x)",
        )
        return Texts(TASK, "x = 1\n", CORRECT, CORRECT.replace("* w[j] + s", "* w[j] - s"), slow)


def judges() -> set[int]:
    """Judge processes that this process started."""
    return children({os.getpid()}, b"harness.judge.main")


def children(parents: set[int], command: bytes) -> set[int]:
    """Processes of these parents whose command line holds a text."""
    return {
        int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_child(path, parents, command)
    }


def _is_child(process: Path, parents: set[int], command: bytes) -> bool:
    try:
        ours = any(f"PPid:\t{parent}\n" in (process / "status").read_text() for parent in parents)
        return ours and command in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_killed_part_of_the_evaluator_is_said_and_the_next_call_works(
    judge_cache: Path,
) -> None:
    before = judges()

    async def body() -> None:
        async with LocalExecutor(None, judge_cache) as executor:
            task = await executor.open_task(TASK, "", "cpu", timed=False)
            slow = CORRECT.replace("class ModelNew", "import time\ntime.sleep(20)\nclass ModelNew")
            for victim in ("fork server", "judge"):
                begun = asyncio.Event()
                call = executor.evaluate(
                    task,
                    request(f"# {victim}\n{slow}"),
                    "cpu",
                    progress=lambda _, begun=begun: begun.set(),
                )
                pending = asyncio.create_task(call)
                await asyncio.wait_for(begun.wait(), 60)
                await asyncio.sleep(0.5)  # now the candidate is being loaded
                killed = judges() - before
                if victim == "fork server":
                    killed = children(killed, b"fork_server.main")
                assert len(killed) == 1
                os.kill(killed.pop(), signal.SIGKILL)
                with pytest.raises(EvaluatorUnavailable):
                    await pending
                assert (
                    await executor.evaluate(task, request(f"# {victim}\n{CORRECT}"), "cpu")
                ).status == "correct"

    asyncio.run(body())
    assert judges() <= before


def test_the_key_holds_the_evaluators_digest_and_the_timing_effort(
    judge: OpenJudge, judge_cache: Path
) -> None:
    said = judge.run(judge.executor.describe()).environment.toolchain
    copies = [p.name[:12] for p in (judge_cache / "harness").iterdir()]  # a kept cache has several
    assert any(f"evaluator {copy}" in said for copy in copies)
    assert "timing effort 0.2" in said  # of all tests


def request(source: str) -> EvaluationRequest:
    return EvaluationRequest(Candidate(source, "cpp"), "check", "verify")


def test_another_interpreter_from_a_folder_with_its_own_harness(
    judge_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second environment that has torch but not KEvolve evaluates; what lies in the current
    folder is not imported."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # the .pth files beside torch are not read through it
    (site / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    missing = subprocess.run(
        [python, "-I", "-c", "import kevolve_mcp"], capture_output=True, cwd=tmp_path, check=False
    )
    if missing.returncode == 0:
        pytest.skip(
            "KEvolve is installed as a plain package beside torch, so a second environment cannot "
            "be without it"
        )
    shadow = tmp_path / "harness"
    shadow.mkdir()
    (shadow / "__init__.py").write_text(
        "raise RuntimeError('the harness of the current folder was imported')\n"
    )
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def body() -> None:
        async with LocalExecutor(str(python), judge_cache, tmp_path) as executor:
            (chosen,) = await executor.interpreters()
            assert (chosen.usable, chosen.origin) == (True, "python argument")
            task = await executor.open_task(TASK, str(tmp_path / "task.py"), "cpu", timed=False)
            assert (await executor.evaluate(task, request(CORRECT), "cpu")).status == "correct"

    asyncio.run(body())


def test_an_interpreter_without_torch_is_refused_with_the_way_to_get_it(
    judge_cache: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "bare", symlinks=True)

    async def body() -> None:
        async with LocalExecutor(
            str(tmp_path / "bare" / "bin" / "python"), judge_cache
        ) as executor:
            with pytest.raises(UsageError, match="pip install torch"):
                await executor.describe()

    asyncio.run(body())


def test_interpreters_are_found_in_the_order_that_is_promised(
    judge_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / ".venv", symlinks=True)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    (tmp_path / "deep").mkdir()

    async def body() -> None:
        found = await LocalExecutor(None, judge_cache, tmp_path / "deep").interpreters()
        assert found[0].path == str(tmp_path / ".venv" / "bin" / "python")
        assert not found[0].usable
        assert any(i.path == sys.executable and i.usable for i in found)
        (configured,) = await LocalExecutor(
            None, judge_cache, configured="/nowhere/python"
        ).interpreters()
        assert "does not exist" in configured.reason

    asyncio.run(body())


def test_a_target_that_is_not_here_is_refused(judge: OpenJudge) -> None:
    with pytest.raises(Unavailable, match="cuda"):
        judge.run(judge.executor.open_task(TASK, "", "cuda", timed=False))


def test_a_cache_that_cannot_be_written_is_told_with_its_variable(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    async def describe() -> None:
        async with LocalExecutor(sys.executable, blocked / "cache") as executor:
            await executor.describe()

    with pytest.raises(Unavailable, match="cannot be written") as raised:
        asyncio.run(describe())
    assert "KEVOLVE_CACHE" in raised.value.hint
