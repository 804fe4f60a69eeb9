"""A task that was opened once is known on the machine: the next opening is answered without a
process of the task."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.judge.idle import PAUSE_SECONDS
from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Task
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused
from kevolve_mcp.executors import LocalExecutor, ProgressEvent
from kevolve_mcp.executors.testing import OpenJudge

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")

SOURCE = (
    "import torch\n\nHELD_OUT = [{'rows': (9, 20)}]\n\ndef reference(x):\n"
    "    return x.relu() + 0.25\n\n"
    "def get_inputs(rows=8):\n    return [torch.randn(rows, 32)]\n"
)
RIGHT = "import torch\n\ndef kernel(x):\n    return x.relu() + 0.25\n"
KNOWN, EXAMINED = "known on this machine", "reading the task"


@dataclass
class Desk:
    """A judge, a task file that nobody opened before, and what was said while it was opened
    last."""

    judge: OpenJudge
    cache: Path
    path: Path
    said: list[str] = field(default_factory=list)

    def open(self, *, timed: bool = False, fresh: bool = False) -> Task:
        return self.judge.run(self.opening(self.judge.executor, timed=timed, fresh=fresh))

    async def opening(self, executor: Any, *, timed: bool = False, fresh: bool = False) -> Task:
        self.said = []
        source, path = self.path.read_text(), str(self.path)
        found: Task = await executor.open_task(
            source, path, "cpu", timed=timed, fresh=fresh, progress=self._heard
        )
        return found

    def _heard(self, event: ProgressEvent) -> None:
        self.said.append(event.message)

    @property
    def known(self) -> bool:
        """Whether the last opening was answered from memory, and nothing else happened."""
        return len(self.said) == 1 and KNOWN in self.said[0]

    @property
    def entry(self) -> Path:
        """The file that remembers the task."""
        (found,) = (
            f
            for f in (self.cache / "opened").iterdir()
            if str(self.path).encode() in f.read_bytes()
        )
        return found

    def judged(self, task: Task) -> Evaluation:
        self.said = []
        request = EvaluationRequest(
            Candidate(RIGHT, "cpp"), "check", "verify", Policy(library_calls="allow")
        )
        return self.judge.run(
            self.judge.executor.evaluate(task, request, "cpu", progress=self._heard)
        )


@pytest.fixture
def desk(judge: OpenJudge, judge_cache: Path, tmp_path: Path) -> Desk:
    path = tmp_path / "relu" / "task.py"
    path.parent.mkdir()
    path.write_text(f"# {tmp_path}\n{SOURCE}")
    return Desk(judge, judge_cache, path)


def in_another_judge(desk: Desk) -> str:
    """The first thing that one started now says about the task; it is ended then."""

    async def body() -> str:
        heard: asyncio.Queue[str] = asyncio.Queue()
        async with LocalExecutor(None, desk.cache) as executor:
            source, path = desk.path.read_text(), str(desk.path)
            opening = executor.open_task(
                source, path, "cpu", timed=False, progress=lambda e: heard.put_nowait(e.message)
            )
            pending = asyncio.create_task(opening)
            said = await heard.get()
        with suppress(EvaluatorUnavailable):
            await pending
        return said

    return asyncio.run(body())


def test_what_was_opened_is_neither_examined_nor_timed_again(desk: Desk) -> None:
    desk.open()
    first = desk.open(timed=True)  # which one without baselines does not answer
    assert any(said.startswith("case default: compile") for said in desk.said)
    assert desk.open(timed=True) == first
    assert desk.known
    assert first.cases[0].baselines_us
    assert desk.judged(first).status == "correct"  # with inputs that are drawn now
    assert desk.open() == first  # nobody asks for baselines, and they do no harm
    assert desk.known
    assert KNOWN in in_another_judge(desk)
    desk.open(fresh=True)
    assert EXAMINED in desk.said


def test_it_is_prepared_for_the_first_evaluation_while_nobody_waits(desk: Desk) -> None:
    task = desk.open(timed=True)
    desk.open(timed=True)
    assert desk.judged(task).status == "correct"
    assert EXAMINED in desk.said  # another process of the task, with inputs of its own
    desk.open(timed=True)
    time.sleep(3 * PAUSE_SECONDS)
    assert desk.judged(task).status == "correct"
    assert EXAMINED not in desk.said
    desk.open(timed=True)
    time.sleep(PAUSE_SECONDS)
    desk.path.write_text(f"{desk.path.read_text()}#\n")
    desk.open()  # it is given up for another task, whenever that comes
    assert desk.judged(task).status == "correct"


def test_another_text_companion_or_module_beside_is_another_task(desk: Desk) -> None:
    desk.open()
    changes: tuple[tuple[str, str], ...] = (
        ("task.py", desk.path.read_text().replace("0.25", "0.5")),
        ("task.heldout.py", "CASES = {'more': {'rows': 7}}\n"),
        ("torch.py", ""),  # a name that the text imports
    )
    for name, text in changes:
        desk.path.with_name(name).write_text(text)
        desk.open()
        assert EXAMINED in desk.said, name
        desk.open()
        assert desk.known, name
    desk.path.with_name("candidate.py").write_text(RIGHT)
    desk.open()
    assert desk.known  # a kernel in the task's folder changes nothing


def test_a_helper_that_changed_makes_it_another_task(desk: Desk) -> None:
    helper = desk.path.with_name("activation.py")
    helper.write_text("def activation(x):\n    return x.relu()\n")
    desk.path.write_text(
        desk.path.read_text().replace(
            "import torch\n", "import torch\nfrom activation import activation\n"
        )
    )
    before = desk.open()
    helper.write_text("def activation(x):\n    return x.cosh()\n")
    after = desk.open()
    assert "activation.py beside the task changed" in desk.said[0]
    assert before.digest != after.digest


@pytest.mark.parametrize("what", ["cores", "setting", "evaluator"])
def test_another_environment_examines_it_anew(
    what: str, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.open()
    cores = os.sched_getaffinity(0)
    if what == "cores" and len(cores) == 1:
        pytest.skip("this process may use one core only")
    try:
        if what == "cores":
            os.sched_setaffinity(0, {max(cores)})
        elif what == "setting":
            monkeypatch.setenv("KEVOLVE_TASK_SECONDS", "119")
        else:
            shutil.copytree(desk.cache / "opened", tmp_path / "cache" / "opened")
            desk.cache = tmp_path / "cache"  # which will hold another evaluator
            assert KNOWN in in_another_judge(desk)
            shutil.copytree(
                Path(harness.__file__).parent,
                tmp_path / "harness",
                ignore=shutil.ignore_patterns("__pycache__"),
            )
            (tmp_path / "harness" / "newer.py").write_text('"""Another version."""\n')
            monkeypatch.setattr(harness, "__file__", str(tmp_path / "harness" / "__init__.py"))
        assert in_another_judge(desk) == EXAMINED
    finally:
        os.sched_setaffinity(0, cores)


def _older(entry: dict[str, Any]) -> None:
    entry["opened"] -= 8 * 86400


def _of_tomorrow(entry: dict[str, Any]) -> None:
    entry["opened"] += 86400


def _without_cases(entry: dict[str, Any]) -> None:
    entry["task"]["cases"] = None


def _of_another_machine(entry: dict[str, Any]) -> None:
    entry["key"]["device"] = "abacus"


def _of_another_task(entry: dict[str, Any]) -> None:
    entry["task"]["digest"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_older, "this machine may have changed since"),
        (_of_tomorrow, "this machine may have changed since"),
        (_without_cases, "is damaged (CodecError: Task.cases"),
        (_of_another_machine, "belongs to another task or machine"),
        (_of_another_task, "its digest differs"),
        (None, "is damaged (JSONDecodeError"),
    ],
)
def test_what_cannot_be_used_is_ignored_and_said(
    desk: Desk, change: Callable[[dict[str, Any]], None] | None, why: str
) -> None:
    first, file = desk.open(), desk.entry
    entry = json.loads(file.read_text())
    if change is not None:
        change(entry)
    file.write_text(json.dumps(entry)[: None if change else -9])
    again = desk.open()
    assert why in desk.said[0]
    assert EXAMINED in desk.said
    assert (again.digest, again.visible_cases) == (first.digest, first.visible_cases)
    desk.open()
    assert desk.known


def test_what_proves_wrong_when_it_is_evaluated_is_forgotten(desk: Desk) -> None:
    desk.open()
    entry = json.loads(desk.entry.read_text())
    entry["task"]["cases"][0]["outputs"][0]["shape"] = [8, 31]
    desk.entry.write_text(json.dumps(entry))
    with pytest.raises(TaskRefused, match="the shape or dtype of an input or output"):
        desk.judged(desk.open())
    assert desk.judged(desk.open()).status == "correct"


def test_an_entry_holds_no_text_and_is_its_owners_alone(desk: Desk) -> None:
    desk.open()
    assert "def reference" not in desk.entry.read_text()
    assert desk.entry.stat().st_mode & 0o777 == 0o600
    assert desk.entry.parent.stat().st_mode & 0o777 == 0o700
