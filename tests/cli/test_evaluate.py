"""`kevolve evaluate` without server and database."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.types import Task
from kevolve_mcp.cli.backend import local
from kevolve_mcp.executors import FakeExecutor

from .conftest import START, Kevolve


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(START)
    return path


def marked(folder: Path, name: str, *markers: str) -> Path:
    path = folder / name
    path.write_text("\n".join(f"# fake: {m}" for m in markers) + "\nclass ModelNew: ...\n")
    return path


def flat(text: str) -> str:
    """Without the line breaks of a terminal."""
    return " ".join(text.split())


def test_a_correct_candidate_gets_its_verdict_and_exit_code_zero(
    kevolve: Kevolve, task: Path, good: Path, home: Path
) -> None:
    result = kevolve("evaluate", task, good)
    assert result.exit_code == 0, result.output
    assert "correct" in result.stdout
    assert "eager" in result.stdout
    assert "120 µs" in result.stdout
    assert not home.exists()


def test_json_is_one_object_per_candidate_and_nothing_else(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    wrong = marked(tmp_path, "wrong.py", "status=incorrect")
    result = kevolve("evaluate", task, good, wrong, "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert first["file"] == str(good)
    assert first["status"] == "correct"
    assert first["fitness"] > 1
    assert first["cases"][0]["baselines"] == {"eager": 120.0, "compile": 100.0}
    assert first["cases"][0]["interval"][0] < first["cases"][0]["speedup"]
    assert second["status"] == "incorrect"
    assert [s["name"] for s in second["signals"]] == ["wrong.values"]
    assert second["fitness"] == 0.0


def test_the_best_of_several_are_timed_against_each_other(
    kevolve: Kevolve, task: Path, tmp_path: Path
) -> None:
    behind = marked(tmp_path, "behind.py", "speedup=1.1")
    ahead = marked(tmp_path, "ahead.py", "speedup=1.3")
    slow = marked(tmp_path, "slow.py", "speedup=0.9")
    shown = kevolve("evaluate", task, behind, ahead, slow)
    assert shown.exit_code == 0, shown.output
    assert f"{ahead} over {behind}: 1.18× [1.17, 1.19] the speed, faster" in flat(shown.stdout)
    assert "3 fresh processes each" in shown.stdout
    assert f"over {slow}" not in shown.stdout
    first, second, third = json.loads(
        kevolve("evaluate", task, behind, ahead, slow, "--json").stdout
    )
    (lost,), (won,) = first["head_to_head"], second["head_to_head"]
    assert (lost["against"], lost["verdict"]) == (str(ahead), "slower")
    assert (won["against"], won["verdict"]) == (str(behind), "faster")
    assert won["interval"][0] < won["ratio"] < won["interval"][1]
    assert third["head_to_head"] == []
    assert third["not_compared"] == f"clearly slower than {ahead}: its interval of F lies below"
    assert f"{slow}: clearly slower than {ahead}" in flat(shown.stdout)
    assert first["not_compared"] == second["not_compared"] == ""


def test_all_that_may_be_the_best_meet_and_one_text_only_once(
    kevolve: Kevolve, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = FakeExecutor()
    monkeypatch.setattr(local, "open_executor", lambda python, near: used)
    near = [marked(tmp_path, f"{n}.py", f"speedup={n}", "noise=0.2") for n in (1.3, 1.25, 1.2)]
    again = tmp_path / "again.py"
    again.write_text(near[0].read_text())
    shown = kevolve("evaluate", task, *near, again, "--quick")
    assert shown.exit_code == 0
    assert f"{again}: the same text as {near[0]}" in flat(shown.stdout)
    (request,) = used.compared
    assert [c.source for c in request.candidates] == [path.read_text() for path in near]
    assert request.effort < 1


def test_one_correct_candidate_meets_nobody(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    wrong = marked(tmp_path, "wrong.py", "status=incorrect")
    assert "head-to-head" not in kevolve("evaluate", task, good, wrong).stdout


def test_what_fails_beside_others_has_that_as_its_verdict(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    late = marked(tmp_path, "late.py", "speedup=1.1", "beside=crashed")
    shown = kevolve("evaluate", task, good, late)
    assert shown.exit_code == 1
    assert "crashed on the fresh inputs of the comparison" in flat(shown.stdout)
    assert "crash.segmentation_fault" in shown.stdout
    found = json.loads(kevolve("evaluate", task, good, late, "--json").stdout)
    assert [v["status"] for v in found] == ["correct", "crashed"]
    assert "no other correct candidate was left" in found[0]["not_compared"]
    assert "crashed on the fresh inputs" in found[1]["not_compared"]


def test_a_comparison_that_cannot_be_made_is_said_and_costs_no_verdict(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    once = marked(tmp_path, "once.py", "speedup=1.1", "lasting=1")
    shown = kevolve("evaluate", task, good, once)
    assert shown.exit_code == 0
    assert "not timed against others: the fake judge was told to fail" in flat(shown.stdout)
    found = json.loads(kevolve("evaluate", task, good, once, "--json").stdout)
    assert all("told to fail" in v["not_compared"] for v in found)


def test_two_equal_texts_meet_nobody_and_say_so(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    same = tmp_path / "same.py"
    same.write_text(good.read_text())
    first, second = json.loads(kevolve("evaluate", task, good, same, "--json").stdout)
    assert "no other correct candidate was left" in first["not_compared"]
    assert second["not_compared"] == f"the same text as {good}"
    assert "head-to-head" in kevolve("evaluate", task, good, same).stdout


class Protective(FakeExecutor):
    """Its cases are protected."""

    async def open_task(self, *given: Any, **options: Any) -> Task:
        task = await super().open_task(*given, **options)
        return replace(task, cases=tuple(replace(c, protected=True) for c in task.cases))


def test_what_slows_a_protected_case_down_is_compared_and_not_eligible(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "open_executor", lambda python, near: Protective())
    slow = marked(tmp_path, "slow.py", "speedup=0.7")
    shown = flat(kevolve("evaluate", task, slow, good).stdout)
    assert f"{good} over {slow}" in shown
    assert f"{slow} slows down a protected case" in shown


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    kevolve: Kevolve, task: Path, good: Path, tmp_path: Path
) -> None:
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00")
    result = kevolve("evaluate", task, tmp_path / "gone.py", binary, tmp_path, good, "--json")
    assert result.exit_code == 1
    gone, not_text, folder, judged = json.loads(result.stdout)
    assert gone["status"] == not_text["status"] == folder["status"] == "unreadable"
    assert "no such candidate" in gone["message"]
    assert "UTF-8" in not_text["message"]
    assert "is a folder" in folder["message"]
    assert judged["status"] == "correct"


def test_an_evaluator_that_fails_is_asked_three_times(
    kevolve: Kevolve, task: Path, tmp_path: Path
) -> None:
    twice, always = (
        marked(tmp_path, "twice.py", "unavailable=2"),
        marked(tmp_path, "always.py", "unavailable=99"),
    )
    result = kevolve("evaluate", task, twice, always, "--json")
    assert [v["status"] for v in json.loads(result.stdout)] == ["correct", "unavailable"]
    assert result.exit_code == 1


def test_quick_measures_as_a_search_does(kevolve: Kevolve, task: Path, tmp_path: Path) -> None:
    late = marked(tmp_path, "late.py", "confirm=incorrect")
    assert kevolve("evaluate", task, late, "--quick").exit_code == 0
    assert kevolve("evaluate", task, late).exit_code == 1


def test_fresh_examines_the_task_anew(
    kevolve: Kevolve, task: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = FakeExecutor()
    monkeypatch.setattr(local, "open_executor", lambda python, near: used)
    for arguments, fresh in (([], 0), (["--fresh"], 1)):
        assert kevolve("evaluate", task, good, *arguments).exit_code == 0
        assert used.fresh == fresh
        used = FakeExecutor()


def test_a_task_that_is_refused_says_why_and_how_to_fix_it(
    kevolve: Kevolve, tmp_path: Path, good: Path
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\n")
    result = kevolve("evaluate", bad, good)
    assert result.exit_code == 2
    assert "neither class Model" in result.stderr
    assert "hint: Add one of them." in result.stderr
    assert "Traceback" not in result.output
    error = json.loads(kevolve("evaluate", bad, good, "--json").stdout)["error"]
    assert error["code"] == "task_refused"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no task named"),
        (["TASK"], "no candidate named"),
        (["/nowhere/task.py", "x.py"], "no such task"),
        (["EMPTY", "x.py"], "holds no task.py"),
        (["TASK", "x.py", "--target", "abacus"], "unknown target 'abacus'"),
        (["TASK", "x.py", "--library-calls", "maybe"], "flag, allow, reject"),
        (["TASK", "x.py", "--memory-gib", "inf"], "less than or equal to 1000000"),
        (["TASK", "x.py", "--isolation", "magic"], "namespaces, bubblewrap, landlock, process"),
        (["TASK", "x.py", "--package", "DIR"], "--package takes no TASK"),
        (["--package", "/nowhere/package"], "/nowhere/package"),
    ],
)
def test_wrong_input_is_answered_in_words(
    kevolve: Kevolve, task: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    result = kevolve(
        "evaluate", *[{"TASK": str(task), "EMPTY": str(empty)}.get(a, a) for a in arguments]
    )
    assert result.exit_code == 2
    assert said in result.stderr
    assert "hint: " in result.stderr
    assert result.stdout == ""
