"""What a candidate may have built, what a compiler can read meanwhile, and what a failed build
explains."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.judge.device.machine import Machine
from harness.judge.errors import OrderEnds, WorkerFailed, WorkerTimeout
from harness.judge.processes import builds
from harness.judge.processes.analyses import Analyses
from harness.judge.processes.builds import BuildService
from harness.judge.processes.worker import BuildHandler, Worker
from harness.native import find_compiler
from harness.native.building import BuildOrder
from harness.types import to_json
from harness.wire import memory_files
from tests.harness.conftest import CANDIDATES, Bench

MANY = """
for number in range(COUNT):
    try:
        load_cpp(f'extern "C" int f() {{ return {number} }}')
    except Exception:
        pass
"""
BROKEN = """
try:
    load_cpp('extern "C" int f() { return nothing; }')
except Exception as error:
    said = error
"""


@pytest.fixture(scope="module")
def machine(judge_cache: Path) -> Iterator[Machine]:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    found = Machine(judge_cache)
    yield found
    found.reaper.wait()
    found.close()


def service(machine: Machine, level: str, seconds: float = 60.0) -> BuildService:
    rules = machine.rules(level)
    return BuildService(machine.fork_server, rules, machine.scratch, seconds, machine.reaper, None)


def order(source: str) -> dict[str, Any]:
    asked: dict[str, Any] = to_json(BuildOrder("cpp", source))
    return asked


def ask(handle: BuildHandler, source: str) -> str:
    """Why an order was refused, "" for one that was served."""
    answer, fds, _ = handle(order(source))
    for fd in fds:
        os.close(fd)
    return str(answer.get("error", ""))


def late(handle: BuildHandler, source: str) -> bool:
    """Whether its process is ended because a timed one orders this for the first time."""
    try:
        ask(handle, source)
    except OrderEnds as error:
        return "for the first time in a timed process" in str(error)
    return False


def test_a_process_may_order_so_many_builds(machine: Machine) -> None:
    service_ = service(machine, machine.level)
    desk = service_.desk()
    answers = [ask(desk, "\ud800") for _ in range(builds.MOST_ORDERS)]
    assert "Unicode" in answers[-1]
    with pytest.raises(OrderEnds, match="fewer sources"):
        ask(desk, "\ud800")
    assert len(service_.records) == builds.MOST_ORDERS + 1
    assert "Unicode" in ask(service_.desk(), "\ud800")


def test_a_process_receives_so_many_bytes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer is a file in memory, and equal orders get one each."""
    found, large = service(machine, machine.level), "char table[1 << 20] = {1};"
    monkeypatch.setattr(builds, "MOST_HANDED_OUT", 5 << 19)
    first = found.desk()
    assert not ask(first, large)
    machine.reaper.wait()
    descriptors = len(os.listdir("/proc/self/fd"))
    for desk in (first, found.desk()):
        assert desk is first or not ask(desk, large)
        assert not ask(desk, large)
        with pytest.raises(OrderEnds, match="keep the results"):
            ask(desk, large)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    found.close()


def test_compilers_work_so_long_for_one_evaluation(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = service(machine, machine.level)
    monkeypatch.setattr(builds, "MOST_BUILDS", 0)
    answer, fds = found.handle(order(f"int f() {{ return {os.getpid()}; }}"))
    for fd in fds:
        os.close(fd)
    assert "error" not in answer
    # which one is too much depends on what was ordered before: nobody is told and goes on
    with pytest.raises(OrderEnds, match="Build less"):
        found.handle(order(f"int g() {{ return {os.getpid()}; }}"))
    assert found.records[-1].timed_out
    assert builds.LATE not in found.records[-1].reply
    found.close()


def test_a_library_is_analysed_after_the_order_is_answered(machine: Machine) -> None:
    found = service(machine, machine.level)
    summed = """extern "C" float sum(const float* x, long n) {
        float s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }"""
    digests = []
    for source in (summed, 'extern "C" int f() { return 1; }'):
        answer, fds = found.handle(order(source))
        digests.append(answer["identity"])
        for fd in fds:
            os.close(fd)
    insides = found.analyses()
    assert list(insides) == digests
    if shutil.which("objdump"):
        assert any(body.loop for body in insides[digests[0]].functions["sum"].bodies)
        assert "f" in insides[digests[1]].functions
    assert found.analyses() == insides
    found.close()


def test_an_analysis_that_fails_is_a_note(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, workers = service(machine, machine.level), list[Worker]()
    begin = Analyses.begin

    def noted(self: Analyses, identity: str, worker: Worker) -> None:
        workers.append(worker)
        worker.kill()
        begin(self, identity, worker)

    monkeypatch.setattr(Analyses, "begin", noted)
    answer, fds = found.handle(order('extern "C" int g() { return 2; }'))
    for fd in fds:
        os.close(fd)
    assert "error" not in answer
    (inside,) = found.analyses().values()
    assert "the code could not be analysed" in inside.note
    assert inside.functions == {}
    machine.reaper.wait()
    assert workers[0].sock.fileno() == -1
    found.close()


def test_a_compiler_without_end_ends_who_ordered(machine: Machine) -> None:
    """How long it takes depends on what else runs: the first process could say a bit with it."""
    found = service(machine, machine.level, seconds=0.01)
    for desk in (found.desk(), found.desk()):
        with pytest.raises(OrderEnds, match="did not end within"):
            ask(desk, "#include <regex>\nint f() { return 1; }")
    found.close()


def test_no_build_outlives_its_evaluation(machine: Machine) -> None:
    """A candidate would count its evaluations by what is there at once."""
    before = set(Path(machine.scratch).glob("builds-*"))
    source = f'extern "C" int f() {{ return {time.time_ns()}; }}'

    def evaluation() -> list[bool]:
        """Whether it was there, when ordered twice."""
        found = service(machine, machine.level)
        desk = found.desk()
        assert not ask(desk, source)
        assert not ask(desk, source)
        found.close()
        return [record.cached for record in found.records]

    assert evaluation() == [False, True]
    assert evaluation() == [False, True]
    assert set(Path(machine.scratch).glob("builds-*")) == before


def test_later_processes_get_what_the_first_has_ordered(machine: Machine) -> None:
    found = service(machine, machine.level)
    first, failing = found.desk(), "int f() { return nothing; }"
    assert not ask(first, "int f() { return 1; }")
    assert not ask(first, "int f() { return 2; }")
    said = ask(first, failing)
    assert "nothing" in said
    spent = found.spent_s
    for later in (found.desk(), found.desk()):
        assert not ask(later, "int f() { return 1; }")
        assert not ask(later, "int f() { return 2; }")
        assert ask(later, failing) == said
        assert late(later, "int f() { return 3; }")
    assert found.spent_s == spent
    found.close()


def test_where_nothing_is_checked_the_kept_builds_are_all(machine: Machine) -> None:
    """The first process that is timed does not settle them: it may meet less than all, or end
    because of somebody else."""
    checked, failing = service(machine, machine.level), "int f() { return nothing; }"
    desk = checked.desk()
    assert not ask(desk, "int f() { return 1; }")
    said = ask(desk, failing)
    kept = checked.hand_over(1 << 20)
    assert checked.hand_over(100) is None
    checked.close()
    assert kept is not None
    found = service(machine, machine.level)
    found.take_over(kept)
    assert late(found.desk(), "int f() { return 2; }")
    for later in (found.desk(), found.desk()):
        assert ask(later, failing) == said
        assert not ask(later, "int f() { return 1; }")
        assert late(later, "int f() { return 2; }")
    assert found.spent_s == 0
    found.close()


@pytest.mark.parametrize("by_compilers", [True, False])
def test_only_the_time_of_compilers_is_forgiven(machine: Machine, by_compilers: bool) -> None:
    worker = machine.fork_server.worker("candidate", machine.rules(machine.level), machine.scratch)
    asked, text = [], "from harness.native import load_cpp\n" + MANY.replace("COUNT", "12")

    def answer(request: Any) -> tuple[dict[str, Any], list[int], float]:
        asked.append(request)
        time.sleep(0.5)
        return {"error": "not this one"}, [], 25.0 if by_compilers else 0.0

    worker.on_build = answer
    source = memory_files.from_bytes("source", text.encode())
    try:  # the one whose builds take long has no entry point in the end
        with pytest.raises(WorkerFailed if by_compilers else WorkerTimeout):
            worker.ask("load", [source], seconds=3.0)
    finally:
        os.close(source)
        worker.close()
    assert (len(asked) == 12) is by_compilers


def test_builds_without_end_are_a_failed_build(bench: Bench, correct: str) -> None:
    head, brace, tail = correct.partition("class ModelNew")
    many = MANY.replace("COUNT", str(builds.MOST_ORDERS)).replace(
        "return {number}", "return \\ud800"
    )
    found = bench.evaluate(head + many + "load_cpp('int f;')\n" + brace + tail)
    assert found.status == "build_failed", found.message
    assert "fewer sources" in found.message


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_a_source_sees_nothing_of_tasks_candidates_and_judges(
    machine: Machine, tmp_path: Path, level: str
) -> None:
    if machine.isolation[level] != "available":
        pytest.skip(f"this machine cannot give {level}: {machine.isolation[level]}")
    found = service(machine, level)
    answer, fds = found.handle(order(f"int another() {{ return {os.getpid()}; }}"))
    for fd in fds:
        os.close(fd)
    product = next(Path(machine.scratch).glob(f"builds-*/{answer['identity']}.bin"))
    (tmp_path / "secret").write_text("1")
    pids = (os.getpid(), os.getppid(), machine.fork_server._process.pid)  # type: ignore[union-attr]
    hidden = [
        str(product),
        str(CANDIDATES / "task.py"),
        str(CANDIDATES / "correct.py"),
        str(tmp_path / "secret"),
        "/etc/shadow",
    ]
    hidden += [
        f"/proc/{pid}/{name}"
        for pid in pids
        for name in ("environ", "maps", "mem", "fd/0", "fd/3", "auxv")
    ]
    if os.uname().machine == "x86_64":  # counts of the whole machine
        hidden += ["/proc/vmstat", "/proc/stat", "/proc/loadavg", "/sys/kernel/mm/lru_gen/enabled"]
    include = "\n".join(f'__asm__(".incbin \\"{path}\\"");' for path in hidden)
    answer, _ = found.handle(order(include))
    assert answer["error"].count("file not found") == len(hidden), answer["error"]
    answer, fds = found.handle(order('__asm__(".incbin \\"/usr/include/stdio.h\\"");'))
    assert "error" not in answer  # what may be read is found this way
    for fd in fds:
        os.close(fd)
    found.close()


def test_a_build_does_not_tell_when_it_was_made(bench: Bench, correct: str) -> None:
    """Else a process would know whether an earlier one had ordered the same."""
    tells = (
        'static_assert(!__builtin_strcmp(__DATE__ " " __TIME__, "Jan  1 1970 00:00:00"));\n'
        "static_assert(__TIMESTAMP__[20] < '2');\n"
    )
    assert 'extern "C"' in correct
    found = bench.evaluate(correct.replace('extern "C"', f'{tells}extern "C"', 1))
    assert found.status == "correct", found.message


def test_a_failed_build_that_was_caught_explains_nothing_later(bench: Bench, correct: str) -> None:
    head, brace, tail = correct.partition("class ModelNew")
    caught = head + BROKEN
    assert bench.evaluate(caught + brace + tail).status == "correct"
    later = bench.evaluate(caught + "raise KeyError('elsewhere')\n" + brace + tail)
    assert (later.status, later.signals[0].name) == ("crashed", "crash.exception"), later.message
    died = bench.evaluate(caught + "import os\nos._exit(3)\n" + brace + tail)
    assert (died.status, died.signals[0].name) == ("crashed", "crash.exit"), died.message
    raised = bench.evaluate(caught + "raise said\n" + brace + tail)
    assert raised.status == "build_failed", raised.message
