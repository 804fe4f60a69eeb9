"""tree, show, diff, sessions, knowledge, compile, export: on a home with one finished session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kevolve_mcp.store import Store
from tests.sessions.conftest import killed

from .conftest import Kevolve


@pytest.fixture
def session(kevolve: Kevolve, task: Path) -> str:
    done = kevolve("optimize", task, "--evaluations", 3, "--no-skills", "--json")
    return str(json.loads(done.stdout)["session"])


def test_sessions_tree_show_and_diff(kevolve: Kevolve, session: str, tmp_path: Path) -> None:
    assert session in kevolve("sessions").stdout
    assert json.loads(kevolve("sessions", "--json").stdout)["sessions"][0]["id"] == session

    tree = kevolve("tree", session)
    assert "n1" in tree.stdout
    assert "[user file]" in tree.stdout
    data = json.loads(kevolve("tree", session, "--json").stdout)
    assert data["session"]["id"] == session
    assert data["nodes"][0]["origin"] == {"kind": "user_file", "name": ""}

    shown = kevolve("show", session, "n1")
    assert "n1" in shown.stdout
    assert "Next:" not in shown.stdout
    assert "predicted" not in shown.stdout  # a start was not foretold
    assert "{'" not in shown.stdout
    cases = kevolve("show", session, "n1", "--section", "cases").stdout
    assert "95 % interval" in cases
    assert '"tolerance"' not in cases
    source = kevolve("show", session, "n1", "--section", "source")
    assert "class ModelNew" in source.stdout
    assert json.loads(kevolve("show", session, "n1", "--json").stdout)["text"]
    assert "class ModelNew" in kevolve("show", session, "--section", "template").stdout

    if len(data["nodes"]) > 1:
        assert kevolve("diff", session, "n2", "n1").exit_code == 0
        assert json.loads(kevolve("diff", session, "n2", "n1", "--json").stdout)["text"]

    # what it ended with stands beside the best of the search
    ended = data["session"]["exported"]
    assert f"exported  {ended['node']}  {ended['fitness']:.2f}×" in tree.stdout
    assert f"{ended['fitness']:.2f}×" in kevolve("sessions").stdout

    # a finished session answers an export with the package it has
    exported = kevolve("export", session, "--json", "--output", tmp_path / "copy")
    assert exported.exit_code == 0, exported.output
    assert json.loads(exported.stdout)["package"] == str(tmp_path / "copy")
    package = tmp_path / "copy"
    judged = kevolve("evaluate", "--package", package, "--json")
    assert judged.exit_code == 0, judged.output
    assert json.loads(judged.stdout)[0]["file"] == str(package)
    (package / "kernel.py").write_text("changed")
    changed = kevolve("evaluate", "--package", package)
    assert changed.exit_code == 1
    assert "kernel.py" in changed.stderr


def test_an_empty_home_says_what_to_do(kevolve: Kevolve) -> None:
    assert "kevolve optimize TASK" in kevolve("sessions").stdout
    assert json.loads(kevolve("sessions", "--json").stdout) == {"sessions": []}


@pytest.mark.parametrize(
    "arguments",
    [
        ("tree", "no-such"),
        ("show", "no-such", "n1"),
        ("diff", "no-such", "n1"),
        ("export", "no-such"),
    ],
    ids=lambda a: a[0],
)
def test_an_unknown_session_is_a_usage_error_with_a_hint(
    kevolve: Kevolve, arguments: tuple[str, ...]
) -> None:
    result = kevolve(*arguments)
    assert result.exit_code == 2
    assert "no-such" in result.stderr
    assert "hint: " in result.stderr
    assert result.stdout == ""
    assert json.loads(kevolve(*arguments, "--json").stdout)["error"]["code"] == "not_found"


def test_knowledge_is_found_by_words_and_signals_and_read(kevolve: Kevolve) -> None:
    found = kevolve("knowledge", "search", "vectorization", "--limit", 3)
    assert found.exit_code == 0
    assert "guidance/" in found.stdout
    hits = json.loads(kevolve("knowledge", "search", "--signal", "memory_bound", "--json").stdout)[
        "hits"
    ]
    assert hits
    page = kevolve("knowledge", "read", hits[0]["id"])
    assert page.exit_code == 0
    assert hits[0]["title"] in page.stdout
    assert (
        json.loads(kevolve("knowledge", "read", hits[0]["id"], "--json").stdout)["text"]
        in page.stdout
    )


def test_wrong_questions_to_the_knowledge(kevolve: Kevolve) -> None:
    nothing = kevolve("knowledge", "search")
    assert nothing.exit_code == 2
    assert "nothing to search for" in nothing.stderr
    unknown = kevolve("knowledge", "read", "guidance/alchemy")
    assert unknown.exit_code == 2
    assert "alchemy" in unknown.stderr


def test_compile_builds_only(kevolve: Kevolve, task: Path, tmp_path: Path) -> None:
    good = kevolve("compile", task, task / "start.py")
    assert good.exit_code == 0, good.output
    assert "compiles" in good.stdout
    broken = tmp_path / "broken.py"
    broken.write_text("# fake: status=build_failed\nclass ModelNew: ...\n")
    bad = kevolve("compile", task, broken, "--json")
    assert bad.exit_code == 1
    assert json.loads(bad.stdout)["status"] == "build_failed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["TASK", "/nowhere/k.py"], "no such candidate"),
        (["START"], "needs a task to be built for"),
        (["TASK", "START", "START"], "3 files"),
        (["TASK", "START", "--session", "s"], "beside --session"),
        (["/nowhere", "START"], "no such task"),
        (["TASK", "START", "--target", "abacus"], "unknown target 'abacus'"),
        (["START", "--session", "no-such"], "no-such"),
    ],
)
def test_compile_with_wrong_input(
    kevolve: Kevolve, task: Path, arguments: list[str], said: str
) -> None:
    result = kevolve(
        "compile",
        *[{"TASK": str(task), "START": str(task / "start.py")}.get(a, a) for a in arguments],
    )
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stdout == ""


def test_export_refuses_a_folder_that_is_in_use(kevolve: Kevolve, task: Path) -> None:
    result = kevolve("export", "no-such", "--output", task)
    assert result.exit_code == 2
    assert "not an empty folder" in result.stderr


def test_looking_runs_no_job_that_a_dead_process_left(
    kevolve: Kevolve, home: Path, task: Path
) -> None:
    """Each look would count as a further attempt at it, and be its end."""
    session, job, _ = killed(home, str(task / "task.py"))
    for arguments in (
        ("sessions",),
        ("tree", session),
        ("show", session, "n1"),
        ("diff", session, "n1", "n1"),
    ):
        done = kevolve(*arguments)
        assert done.exit_code == 0, done.output
    with Store.open(home) as store:
        assert (store.jobs.get(job).attempts, store.jobs.get(job).state) == (1, "running")


def test_an_evaluation_is_shown_by_its_id(kevolve: Kevolve, session: str) -> None:
    assert kevolve("show", session, "e1").stdout.startswith("e1: correct")
    assert "class ModelNew" in kevolve("show", session, "e1", "--section", "source").stdout
    named = kevolve("show", f"{session}/e1").stdout
    assert named.startswith(f"{session}/e1: correct")
    for nobodys in ("e1", "x99"):
        refused = kevolve("show", nobodys)
        assert refused.exit_code == 2
        assert "session" in refused.stderr
    alone = kevolve("show", session)
    assert alone.exit_code == 2
    assert f"kevolve tree {session}" in alone.stderr
    gone = kevolve("show", session, "e99")
    assert gone.exit_code == 2
    assert f"kevolve tree {session}" in gone.stderr


def test_the_root_is_compared_as_the_task_that_it_is(kevolve: Kevolve, session: str) -> None:
    shown = kevolve("diff", session, "n1")  # its parent is the root
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("n0 -> n1: ")
    assert "-class Model(nn.Module):" in shown.stdout


def test_a_long_text_comes_whole_without_the_notes_between_its_pieces(
    kevolve: Kevolve, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kevolve("show", session, "n1", "--section", "source").stdout
    monkeypatch.setattr("kevolve_mcp.api.views.PIECE", 60)
    assert kevolve("show", session, "n1", "--section", "source").stdout == whole


def test_errors_speak_of_commands_and_options(kevolve: Kevolve, session: str) -> None:
    other = kevolve("export", session, "n99")
    assert other.exit_code == 1
    assert f"`kevolve export {session}` reads its package again" in other.stderr
    for word in ("node_id", "session_open", "session_id"):
        assert word not in other.stderr


def test_a_note_on_a_search_stands_before_the_hits(kevolve: Kevolve) -> None:
    shown = kevolve(
        "knowledge", "search", "--signal", "memory_bond", "vectorization"
    ).stdout.splitlines()
    assert shown[1].startswith("note: no page names the signal 'memory_bond'")
    found = kevolve(
        "knowledge", "search", "--signal", "memory_bond", "vectorization", "--json"
    ).stdout
    assert "memory_bond" in json.loads(found)["note"]


def test_export_looks_first_where_the_package_shall_go(kevolve: Kevolve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = kevolve("export", "no-such", "--output", tmp_path / "file" / "package")
    assert result.exit_code == 2
    assert "cannot be created" in result.stderr


def test_compile_takes_an_interpreter_where_it_starts_one(kevolve: Kevolve, task: Path) -> None:
    done = kevolve("compile", task, task / "start.py", "--python", "/usr/bin/python3")
    assert done.exit_code == 0, done.output
    there = kevolve(
        "compile",
        task,
        task / "start.py",
        "--python",
        "x",
        "--server",
        "http://127.0.0.1:1",
        "--token",
        "t",
    )
    assert there.exit_code == 2
    assert "--python" in there.stderr


def test_who_solved_a_similar_task(
    kevolve: Kevolve, session: str, task: Path, tmp_path: Path
) -> None:
    other = tmp_path / "rescale.py"
    other.write_text((task / "task.py").read_text().replace("x * 2", "x * 3"))
    shown = kevolve("knowledge", "similar", other)
    assert shown.exit_code == 0, shown.output
    assert "Solved before: the task scale, 100% alike" in shown.stdout
    assert f"kevolve show {session} n" in shown.stdout
    (view,) = json.loads(kevolve("knowledge", "similar", task, "--json").stdout)["similar"]
    assert (view["session"], view["same_task"]) == (session, True)
    other.write_text(other.read_text() + "# fake: operators=aten.cumsum.default\n")
    assert "No session of this home" in kevolve("knowledge", "similar", other).stdout


def test_a_home_elsewhere_is_not_looked_through(
    kevolve: Kevolve, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_SERVER", "http://127.0.0.1:1")
    refused = kevolve("knowledge", "similar", task)
    assert refused.exit_code != 0
    assert "without KEVOLVE_SERVER" in refused.output
    assert kevolve("knowledge", "similar", task.parent / "nothing").exit_code != 0
