"""What one process of a candidate leaves on a file reaches no other one: each gets memory files of
its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judge.device.machine import Machine
from harness.judge.errors import WorkerDied
from harness.judge.evaluation import pipeline
from harness.judge.processes.fork_server_process import ForkServer
from harness.judge.processes.worker import Worker
from harness.judge.stage_context import begin
from harness.judge.tasks.open_task import OpenTask
from harness.judge.tasks.opening import open_task
from harness.native import find_compiler
from harness.sandbox.confine import Confinement
from harness.targets import cpu
from harness.types import Candidate, EvaluationRequest, Policy, Target, Task
from harness.wire import frames, memory_files
from tests.harness.conftest import CANDIDATES, load
from tests.harness.sandbox.test_confinement import READABLE


@pytest.fixture(scope="module")
def opened(judge_cache: Path) -> Iterator[tuple[Machine, OpenTask, Task]]:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    machine = Machine(judge_cache)
    path = CANDIDATES / "task.py"
    handle, task = open_task(
        machine, path.read_text(), str(path), lambda *_: None, None, timed=False
    )
    yield machine, handle, task
    handle.close()
    machine.reaper.wait()
    machine.close()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[int, str]]:
    """Of each worker that runs candidates: the inodes that it was shown, and with which command."""
    found: dict[int, dict[int, str]] = {}
    send = Worker.send

    def note(worker: Worker, op: str, fds: list[int]) -> None:
        if worker.kind != "reference":
            found.setdefault(worker.kill_fd << 20 | worker.pid, {}).update(
                {os.fstat(fd).st_ino: op for fd in fds}
            )

    def sent(worker: Worker, op: str, fds: list[int] | None = None, **arguments: Any) -> None:
        note(worker, op, fds or [])
        send(worker, op, fds, **arguments)

    def built(worker: Worker, reply: frames.Reply) -> float:
        handle = worker.on_build
        assert handle is not None

        def noted(request: Any) -> tuple[dict[str, Any], list[int], float]:
            answer, fds, seconds = handle(request)
            note(worker, "build", fds)
            return answer, fds, seconds

        worker.on_build = noted
        try:
            return build(worker, reply)
        finally:
            worker.on_build = handle

    build = Worker._build
    monkeypatch.setattr(Worker, "send", sent)
    monkeypatch.setattr(Worker, "_build", built)
    return found


def test_two_processes_in_a_row_share_no_file(
    opened: tuple[Machine, OpenTask, Task], shown: dict[int, dict[int, str]], correct: str
) -> None:
    machine, handle, task = opened
    for _ in range(2):
        request = EvaluationRequest(Candidate(correct, "cpp"), "check", "verify", Policy())
        place = machine.place(cpu, Target.parse("cpu"), "cpp")
        found = pipeline.evaluate(
            begin(machine, place, handle, task, request, machine.level, lambda *_: None, None)
        )
        assert found.status == "correct", found.message
    candidates = [files for files in shown.values() if "case" in files.values()]
    assert len(candidates) == 2
    for files in candidates:
        assert {"load", "case", "state", "burst", "build"} <= set(files.values())
    one, other = candidates
    assert not set(one) & set(other)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    found = ForkServer([])
    yield found
    found.close()


def test_a_file_is_copied_each_time_and_the_copies_end_with_the_worker(server: ForkServer) -> None:
    files = [memory_files.from_bytes("inputs", bytes([number]) * 8192) for number in range(5)]
    server.start()
    before = len(os.listdir("/proc/self/fd"))
    worker = server.worker("candidate", Confinement("process"))
    (first,) = worker.private_copies(files[0])
    assert os.pread(first, 8192, 0) == bytes(8192)
    with pytest.raises(PermissionError):
        os.pwrite(first, b"x", 0)
    os.lseek(first, 77, os.SEEK_SET)
    assert os.lseek(files[0], 0, os.SEEK_CUR) != 77
    inode = os.fstat(first).st_ino
    (again,) = worker.private_copies(files[0])
    assert os.fstat(again).st_ino != inode
    assert [os.pread(fd, 1, 0) for fd in worker.private_copies(*files)] == [
        bytes([number]) for number in range(5)
    ]
    worker.close()
    assert len(os.listdir("/proc/self/fd")) == before
    for fd in files:
        os.close(fd)


def test_a_copy_of_a_file_with_holes_has_them() -> None:
    fd = memory_files.create("inputs", 1 << 24)
    os.pwrite(fd, b"in the middle", 5 << 20)
    copy = memory_files.copy("own", fd)
    assert memory_files.read_all(copy) == memory_files.read_all(fd)
    assert os.fstat(copy).st_blocks <= os.fstat(fd).st_blocks < 1 << 12
    os.close(fd)
    os.close(copy)


HIDDEN = {
    "memory files": (
        "import os\nfor _ in range(40):\n    os.write(os.memfd_create('x'), bytes(32 << 20))"
    ),
    "memory of a process whose first thread has ended": (
        "import ctypes, threading, time\n"
        "def hold():\n    time.sleep(0.2)\n    held = b'x' * (400 << 20)\n    time.sleep(10)\n"
        "threading.Thread(target=hold).start()\n"
        "ctypes.CDLL(None).syscall(60 if __import__('os').uname().machine == 'x86_64' else 93, 0)"
    ),
    "a folder in memory": (
        "for number in range(12):\n    open(f'/tmp/{number}', 'wb').write(bytes(32 << 20))"
    ),
    "shared memory": (
        "for number in range(12):\n    open(f'/dev/shm/{number}', 'wb').write(bytes(32 << 20))"
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_memory_that_nobody_maps_counts(server: ForkServer, name: str) -> None:
    rules = Confinement("namespaces", READABLE, resident_bytes=256 << 20)
    if name == "memory files":  # a candidate for a CPU gets none
        rules = replace(rules, tools=True)
    with pytest.raises(WorkerDied) as ended:
        load(
            server.worker("candidate", rules),
            f"{HIDDEN[name]}\nimport time\ntime.sleep(10)\nclass ModelNew: pass\n",
        )
    assert ended.value.held_bytes > 256 << 20
