"""`kevolve optimize`, with a real server process and the scripted executor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Kevolve

QUICK = ("--evaluations", 4, "--no-skills")


@pytest.mark.usefixtures("server_process")
def test_a_folder_is_optimized_with_the_start_beside_it(kevolve: Kevolve, task: Path) -> None:
    result = kevolve("optimize", task, *QUICK)
    assert result.exit_code == 0, result.output
    assert f"starting from {task / 'start.py'}" in result.stderr
    for part in (
        "opened scale-",
        "baseline default: eager 120 µs",
        "n1 learned: start from user file",
        "search over: budget_spent",
    ):
        assert part in result.stderr
    for part in (
        "over the strongest baseline",
        "eager",
        "compile",
        "allocation",
        "Not claimed",
        "[start: user file]",
        "kevolve tree scale-",
    ):
        assert part in result.stdout
    package = next(
        line.split()[-1] for line in result.stdout.splitlines() if line.startswith("package")
    )
    assert (Path(package) / "bench.py").is_file()


def test_without_a_terminal_nothing_is_drawn(kevolve: Kevolve, task: Path) -> None:
    result = kevolve("optimize", task, *QUICK)
    assert "\x1b" not in result.output
    assert "\r" not in result.output


def test_json_is_the_only_thing_on_stdout(kevolve: Kevolve, task: Path, tmp_path: Path) -> None:
    result = kevolve(
        "optimize",
        task,
        *QUICK,
        "--selection",
        "evolutionary",
        "--json",
        "--output",
        tmp_path / "copy",
    )
    data = json.loads(result.stdout)
    assert result.exit_code == 0
    assert data["reason"] == "budget_spent"
    assert data["package"] == str(tmp_path / "copy")
    assert (tmp_path / "copy" / "manifest.json").is_file()
    assert data["cases"][0]["baselines"] == {"eager": 120.0, "compile": 100.0}
    assert data["nodes"] == 4


def test_an_own_start_goes_before_the_one_beside_the_task(
    kevolve: Kevolve, task: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text((task / "start.py").read_text().replace("speedup=1.2", "speedup=1.9"))
    result = kevolve("optimize", task, *QUICK, "--start", mine, "--json")
    assert "lies beside" not in result.stderr
    assert json.loads(result.stdout)["lineage"][0]["fitness"] > 1.8


def test_a_finished_session_can_be_asked_for_again(kevolve: Kevolve, task: Path) -> None:
    session = json.loads(kevolve("optimize", task, *QUICK, "--json").stdout)["session"]
    again = kevolve("optimize", "--resume", session)
    assert again.exit_code == 0
    assert "finished" in again.stdout
    assert "over the strongest baseline" in again.stdout


def test_a_search_without_a_winner_ends_with_exit_code_one(kevolve: Kevolve, task: Path) -> None:
    (task / "start.py").write_text("# fake: status=incorrect\nclass ModelNew: ...\n")
    result = kevolve("optimize", task, *QUICK)
    assert result.exit_code == 1
    assert "nothing to export" in result.stdout
    assert "kevolve tree scale-" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "no task named"),
        (["/nowhere"], 2, "no such task"),
        (["TASK", "--resume", "scale-0000"], 2, "--resume takes no TASK"),
        (["--resume", "scale-0000"], 2, "scale-0000"),
        (["TASK", "--start", "/nowhere/start.py"], 2, "no such start"),
        (["TASK", "--goal", "fame"], 2, "unknown goal 'fame'"),
        (["TASK", "--target", "abacus"], 2, "unknown target 'abacus'"),
        (["TASK", "--target", "cuda"], 1, "no NVIDIA driver answered"),
        (["TASK", "--author", "shakespeare"], 2, "there is no author 'shakespeare'"),
        (["TASK", "--selection", "sortition"], 2, "sortition"),
        (["TASK", "--evaluations", "0"], 2, "evaluations"),
        (["TASK", "--output", "FULL"], 2, "not an empty folder"),
    ],
)
def test_wrong_input_is_answered_in_words(
    kevolve: Kevolve, task: Path, arguments: list[str], code: int, said: str
) -> None:
    given = [{"TASK": str(task), "FULL": str(task)}.get(a, a) for a in arguments]
    result = kevolve("optimize", *given)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_refused_task_says_the_line_and_the_fix(kevolve: Kevolve, task: Path) -> None:
    (task / "task.py").write_text(
        "# fake: refused=line 7: get_inputs is missing\nclass Model: ...\n"
    )
    result = kevolve("optimize", task, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "task_refused"
    assert "line 7" in error["message"]
    assert error["hint"]
