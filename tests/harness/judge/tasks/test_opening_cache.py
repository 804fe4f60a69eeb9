"""What judges keep in their cache for later ones: written by several at once, bounded, out of a
candidate's reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judge.device.machine import Machine
from harness.judge.errors import Refused, WorkerFailed
from harness.judge.processes.fork_server_process import ForkServer
from harness.judge.processes.worker import Worker
from harness.judge.tasks import cache_files
from harness.judge.tasks.opening_cache import OpeningCache
from harness.judge.tasks.task_workers import TaskText
from harness.targets import ceilings_cache, cpu
from harness.types import Case, Ceilings, Task, task_digest, to_json
from tests.harness.conftest import load

TEXT = TaskText("def reference(x): ...\n", "", "", 0)
TASK = Task("task-1", task_digest(TEXT.source), TEXT.source, cases=(Case("default"),))
WRITER = """
import sys
from pathlib import Path
from harness.judge.tasks import cache_files
for number in range(400):
    cache_files.write(Path(sys.argv[1]) / f"{number % 7}.json", sys.argv[2].encode() * 9000, most_files=5, most_bytes=1 << 20)
"""  # noqa: E501


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path / "cache")
    yield found
    found.close()


def test_several_judges_write_and_remove_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "opened"
    root = str(Path(__file__).parents[4])
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, folder, letter], cwd=root)
        for letter in "abc"
    ]
    while any(w.poll() is None for w in writers):
        for file in folder.glob("*.json"):
            try:
                found = cache_files.read(file)
            except FileNotFoundError:
                continue
            assert len(found) == 9000  # of one writer, whole
            assert len(set(found)) == 1
    assert [w.returncode for w in writers] == [0, 0, 0]
    assert len(list(folder.iterdir())) <= 5


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    for name in "abc":
        cache_files.write(tmp_path / name, b"1234", most_files=3, most_bytes=12)
    cache_files.read(tmp_path / "a")
    cache_files.write(tmp_path / "d", b"1234", most_files=3, most_bytes=12)
    assert {f.name for f in tmp_path.iterdir()} == {"a", "c", "d"}
    cache_files.write(tmp_path / "e", b"12345678", most_files=3, most_bytes=12)
    assert {f.name for f in tmp_path.iterdir()} == {"d", "e"}
    cache_files.write(tmp_path / "f", b"1" * 99, most_files=3, most_bytes=12)
    assert {f.name for f in tmp_path.iterdir()} == {"f"}  # the newest stays, whatever its size


def test_a_write_that_fails_is_said_and_leaves_nothing(machine: Machine) -> None:
    machine.cache.mkdir()
    (machine.cache / "opened").write_text("not a folder")
    remembered = OpeningCache(machine)
    assert "cannot be written" in remembered.keep(cpu, TEXT, TASK, timed=False)
    assert "cannot be read" in remembered.find(cpu, TEXT, timed=False).note


def test_a_file_named_by_the_task_that_is_no_file_of_its_folder_never_fits(
    machine: Machine, tmp_path: Path
) -> None:
    """Names of neighbours are the word of the task's process: a pipe would keep the judge waiting,
    a device would never end."""
    folder = tmp_path / "task"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (tmp_path / "outside").write_text("")
    text = replace(TEXT, path=str(folder / "task.py"))
    remembered = OpeningCache(machine)
    for name in ("pipe", "../outside", "/dev/zero", "gone"):
        neighbours = {name: "0" * 64}
        task = replace(TASK, neighbours=neighbours, digest=task_digest(TEXT.source, "", neighbours))
        assert remembered.keep(cpu, text, task, timed=False) == ""
        assert f"{name} beside the task changed" in remembered.find(cpu, text, timed=False).note


def test_a_candidate_reaches_nothing_of_it(machine: Machine) -> None:
    remembered = OpeningCache(machine)
    remembered.keep(cpu, TEXT, TASK, timed=False)
    assert remembered.find(cpu, TEXT, timed=False).task == TASK
    (file,) = (machine.cache / "opened").iterdir()
    for attempt in (
        f"open({str(file)!r})",
        f"open({str(file.with_name('more'))!r}, 'w')",
        f"__import__('os').unlink({str(file)!r})",
    ):
        worker = machine.servers.bare(machine.level).worker(
            "candidate", machine.rules(machine.level), machine.scratch
        )
        with pytest.raises(WorkerFailed, match=r"No such file|denied|Read-only"):
            load(worker, f"{attempt}\nclass ModelNew: pass\n")
    assert remembered.find(cpu, TEXT, timed=False).task == TASK


def test_baselines_of_a_busy_machine_are_remembered_for_an_hour(
    machine: Machine,
) -> None:
    remembered = OpeningCache(machine)
    for disturbed, known in ((True, False), (False, True)):
        remembered.keep(cpu, TEXT, TASK, timed=True, disturbed=disturbed)
        (file,) = (machine.cache / "opened").iterdir()
        entry = json.loads(file.read_text())
        file.write_text(json.dumps({**entry, "opened": entry["opened"] - 2 * 3600}))
        assert (remembered.find(cpu, TEXT, timed=True).task == TASK) is known


def test_where_a_candidate_could_write_nothing_is_remembered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ForkServer.worker

    def worker(server: ForkServer, kind: str, rules: Any, scratch: str = "") -> Worker:
        if rules.level != "process":
            raise Refused(f"{rules.level}: not here")
        return start(server, kind, rules, scratch)

    monkeypatch.setattr(ForkServer, "worker", worker)
    remembered = OpeningCache(machine)
    assert remembered.keep(cpu, TEXT, TASK, timed=False) == ""
    assert remembered.find(cpu, TEXT, timed=False).task is None
    assert not (machine.cache / "opened").exists()


def test_ceilings_are_measured_again_after_a_while(tmp_path: Path) -> None:
    rates = (
        '{"bandwidth": {}, "write_bandwidth": {}, "operations": {}, "level_bytes": {}, '
        '"launch_us": %d}'
    )

    def measured(us: int) -> float:
        return ceilings_cache.ceilings(
            tmp_path, [sys.executable, "-c", f"print('''{rates % us}''')"], "cpu:x", "method"
        ).launch_us

    assert (measured(1), measured(2)) == (1, 1)
    (file,) = tmp_path.glob("ceilings-*.json")
    os.utime(file, (0, 0))
    assert (measured(3), measured(4)) == (3, 3)


def test_of_ceilings_that_a_kernel_exceeded_the_higher_rates_are_kept(tmp_path: Path) -> None:
    def measured(memory: float, cache: float, exceeded: Ceilings | None = None) -> Ceilings:
        rates = {"L1": cache, "memory": memory}
        found = Ceilings(rates, rates, {"float32": memory}, {"L1": 1, "memory": 2}, 1 / memory)
        script = f"print({json.dumps(to_json(found))!r})"
        return ceilings_cache.ceilings(
            tmp_path, [sys.executable, "-c", script], "cpu:x", "method", exceeded
        )

    first = measured(2.0, 8.0)
    again = measured(4.0, 6.0, first)
    assert again.bandwidth == again.write_bandwidth == {"L1": 8.0, "memory": 4.0}
    assert (again.operations, again.launch_us) == ({"float32": 4.0}, 0.25)
    assert measured(1.0, 1.0) == again  # as the cache has it
