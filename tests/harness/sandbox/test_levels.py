"""A whole evaluation at each level that a machine may be left with; what a worker can reach there
is in test_confinement.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.judge.device.machine import Machine
from harness.judge.errors import Refused, WorkerFailed
from harness.judge.evaluation import pipeline
from harness.judge.processes import bubblewrap
from harness.judge.processes.fork_server_process import ForkServer
from harness.judge.processes.worker import Worker
from harness.judge.stage_context import begin
from harness.judge.tasks.open_task import OpenTask
from harness.judge.tasks.opening import open_task
from harness.native import find_compiler
from harness.targets import cpu
from harness.types import (
    ISOLATION_LEVELS,
    Candidate,
    Evaluation,
    EvaluationRequest,
    Policy,
    Target,
    Task,
)
from tests.harness.conftest import CANDIDATES, load

WEAKER = ISOLATION_LEVELS[1:]
LOOKS_AROUND = """
import os

def reaches(action):
    try:
        return bool(action())
    except OSError:
        return False

found = [name for name, action in (
    ("task", lambda: open(TASK).read()),
    ("home", lambda: os.listdir(HOME)),
    ("folder", lambda: os.open(os.path.join(FOLDER, "left"), os.O_CREAT | os.O_WRONLY)),
) if reaches(action)]
raise RuntimeError(f"reached: {found}")
class ModelNew: pass
"""


@pytest.fixture(scope="module", params=WEAKER)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """A machine that refuses everything stronger."""
    level: str = request.param
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    if level == "bubblewrap" and bubblewrap.program() is None:
        pytest.skip(bubblewrap.MISSING)
    denied = ISOLATION_LEVELS[: ISOLATION_LEVELS.index(level)]  # type: ignore[arg-type]
    start = ForkServer.worker

    def worker(server: ForkServer, kind: str, rules: Any, scratch: str = "") -> Worker:
        if rules.level in denied:
            raise Refused(f"{rules.level}: not here")
        return start(server, kind, rules, scratch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForkServer, "worker", worker)
        yield level


@pytest.fixture(scope="module")
def opened(level: str, judge_cache: Path) -> Iterator[tuple[Machine, OpenTask, Task]]:
    machine = Machine(judge_cache)
    if machine.level != level:
        machine.close()
        pytest.skip(f"this machine cannot give {level}: {machine.isolation[level]}")
    path = CANDIDATES / "task.py"
    handle, task = open_task(
        machine, path.read_text(), str(path), lambda *_: None, None, timed=False
    )
    yield machine, handle, task
    handle.close()
    machine.reaper.wait()
    machine.close()


def judged(opened: tuple[Machine, OpenTask, Task], source: str) -> Evaluation:
    machine, handle, task = opened
    request = EvaluationRequest(
        Candidate(source, "cpp"), "check", "verify", Policy(isolation="process")
    )
    place = machine.place(cpu, Target.parse("cpu"), "cpp")
    return pipeline.evaluate(
        begin(machine, place, handle, task, request, machine.level, lambda *_: None, None)
    )


def test_a_candidate_is_built_and_verified(opened: Any, level: str, correct: str) -> None:
    found = judged(opened, correct)
    assert (found.status, found.environment.isolation) == ("correct", level), found.message
    wrong = judged(opened, correct.replace("+ s;", "- s;"))
    assert wrong.status == "incorrect"


def test_a_candidate_beside_its_task_does_not_see_it(opened: Any, level: str) -> None:
    """One that is timed is forked where the task's own folder is there for the baseline."""
    machine, handle, _ = opened
    server = machine.task_server(cpu, handle.text.folder, compiles=False, level=level)
    worker = server.worker("candidate", machine.rules(level), machine.scratch)
    text = f"open({str(CANDIDATES / 'task.py')!r}).read()\nclass ModelNew: pass\n"
    if level == "process":
        load(worker, text)
    else:
        with pytest.raises(WorkerFailed, match="Permission denied"):
            load(worker, text)


def test_the_next_candidates_worker_is_ready_afterwards(opened: Any, correct: str) -> None:
    machine, *_ = opened
    judged(opened, correct)
    assert machine.spare_worker._key is not None
    # takes it, and is over before it is verified
    failed = judged(opened, "raise ValueError\nclass ModelNew: pass")
    assert failed.status == "crashed"
    until = time.monotonic() + 20
    while machine.spare_worker._worker is None and time.monotonic() < until:
        time.sleep(0.01)
    assert machine.spare_worker._worker is not None


def test_it_reaches_what_its_level_says(opened: Any, level: str, tmp_path: Path) -> None:
    facts = {"TASK": str(CANDIDATES / "task.py"), "HOME": str(Path.home()), "FOLDER": str(tmp_path)}
    message = judged(
        opened, "\n".join(f"{k} = {v!r}" for k, v in facts.items()) + LOOKS_AROUND
    ).message
    assert ("reached: []" in message) == (level != "process"), message
    assert (tmp_path / "left").exists() == (level == "process")
