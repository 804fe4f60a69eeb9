"""The benchmark of agents: the scripted client on a server whose executor is fake, through the
recording proxy, and what is made of its transcript."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agents import following, judge, plan, record, report, run, transcript, versions
from benchmarks.agents.plan import Plan
from harness.types import Candidate
from harness.workers import task_file
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.provenance import USER_FILE
from kevolve_mcp.search.tree import Ask, Tree

TASKS = [(target, name) for target in plan.FOLDERS for name in plan.task_names(target)]
PATIENCE_S = 60.0


def laid(folder: Path, **fields: object) -> Plan:
    """A run with the fake server."""
    server = (sys.executable, "-m", "tests.server.fake_server", str(folder / "home"))
    return plan.lay(folder, replace(Plan("haar", "scripted", server=server), **fields))  # type: ignore[arg-type]


def test_the_scripted_client_leaves_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    agreed = laid(folder)
    run.execute(folder, agreed)
    found = record.make(folder)
    assert found["said"].startswith("Reached "), found["said"]
    assert found["finished"]
    assert found["exit_code"] == 0
    assert found["errors"] == {}
    assert found["calls"]["session_open"] == found["calls"]["session_finish"] == 1
    asks = found["asks"]
    assert asks["given"] - asks["open"] == asks["answered"] == asks["followed"] >= 4
    assert "improve" in {row["role"] for row in asks["each"]}
    assert found["calls"]["kernel_submit"] == asks["answered"]
    figures = [figure for _, figure in found["curve"]]
    assert figures == sorted(figures)
    assert 0 < found["time_to_95_s"] <= found["seconds"]
    assert found["shown"]["session_next: first"]["tokens"] > 100
    assert found["steps"]["compared"] == asks["answered"]

    # the kernels that led are in the home, the one that the session ended with is the last
    leaders = judge.leaders(folder, agreed)
    assert [Candidate(text, "cpp").params() for _, text in leaders]
    assert sorted(leaders) == leaders
    table = report.markdown([found])
    assert "| haar | scripted | yes | nothing was left |" in table
    assert report.totals([found])["followed_share"] == 1.0


ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


@pytest.mark.parametrize(
    ("budget", "words"),
    [({"calls": 1}, "The 1 calls of this run are used up"), ({"seconds": -60.0}, "are over")],
)
def test_calls_beyond_the_budget_are_refused_and_finishing_is_not(
    tmp_path: Path, budget: dict[str, float], words: str
) -> None:
    folder = tmp_path / "run"
    agreed = laid(folder, server=(sys.executable, "-c", ECHO), **budget)
    answers = [_through_the_proxy(folder, tool) for tool in ("kernel_check", "kernel_check")]
    (first, refused), finish = answers, _through_the_proxy(folder, "session_finish")
    assert ("result" in first) == ("seconds" in budget), "the one call of the budget is let through"
    assert refused["result"]["isError"]
    assert words in refused["result"]["content"][0]["text"]
    assert "session_finish" in refused["result"]["structuredContent"]["hint"]
    assert "result" not in finish, "what ends a session is let through"
    calls = transcript.read(folder / "transcript.jsonl", agreed.began)
    assert [c.error for c in calls if c.error == "budget"] == ["budget"] * ("result" in first) + [
        "budget"
    ]


def _through_the_proxy(folder: Path, tool: str) -> dict[str, Any]:
    """One call over a connection of its own, to a server that says what it hears."""
    call = {"id": 7, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    done = subprocess.run(
        plan.proxy(folder),
        input=json.dumps(call) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_shell_calls_tools_while_the_run_is_served(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    agreed = laid(folder)
    code = (
        "import asyncio, pathlib, sys; from benchmarks.agents import plan, serve; "
        "run = pathlib.Path(sys.argv[1]); asyncio.run(serve.serve(run, plan.load(run)))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=plan.ROOT) as serving:
        until = time.monotonic() + PATIENCE_S
        while not (folder / "agent.sock").exists():
            assert serving.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "session_open: " in _shell(folder, "tools")
        path = {"task_path": str(plan.task_file(folder, agreed)), "wait_s": 20}
        (tmp_path / "arguments.json").write_text(json.dumps(path))
        assert "opened" in _shell(folder, "session_open", f"@{tmp_path / 'arguments.json'}")
        assert "There is no tool" in _shell(folder, "no_tool", "{}", code=1)
        assert "no JSON" in _shell(folder, "tree_view", "{", code=1)
        _shell(folder, "end", "all is", "said")
        assert serving.wait(PATIENCE_S) == 0
    assert (folder / "said.txt").read_text() == "all is said"
    assert "nothing serves" in _shell(folder, "tools", code=1)
    calls = transcript.read(folder / "transcript.jsonl", agreed.began)
    assert [c.tool for c in calls] == ["session_open", "no_tool"]
    assert [bool(c.error) for c in calls] == [False, True]


def _shell(folder: Path, *words: str, code: int = 0) -> str:
    program = str(Path(plan.__file__).with_name("call.py"))
    done = subprocess.run(
        [sys.executable, program, str(folder), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_run_without_the_server_has_its_versions(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    agreed = laid(folder, with_server=False)
    assert "session_open" not in plan.brief(folder, agreed)
    (folder / "versions" / "12.5.py").write_text("second")
    (folder / "versions" / "3.0.py").write_text("first")
    with versions.kept(folder, agreed):
        (folder / "work" / plan.KERNEL).write_text("third")
    assert [text for _, text in versions.read(folder)][:1] != [""]
    assert {text for _, text in judge.leaders(folder, agreed)} == {"first", "second", "third"}
    confirmed = [
        judge.Judged(3.0, "correct", "", 1.5),
        judge.Judged(9.0, "incorrect", "wrong", 0.0),
        judge.Judged(12.5, "correct", "", 2.0),
    ]
    (folder / "judged.json").write_text(json.dumps([asdict(j) for j in confirmed]))
    found = record.make(folder)
    assert found["confirmed_curve"] == [[3.0, 1.5], [12.5, 2.0]]
    assert found["confirmed_95_s"] == 12.5
    assert found["asks"]["given"] == 0
    assert "| haar | scripted | no | 2x | - | - | 12 | - |" in report.markdown([found])
    assert report.totals([found])["followed_share"] is None


def test_what_is_confirmed_is_spread_and_ends_with_the_last() -> None:
    found = [(float(k), str(k)) for k in range(10)]
    assert [at for at, _ in judge.chosen(found, 4)] == [0.0, 3.0, 6.0, 9.0]
    assert judge.chosen(found, 1) == found[-1:]
    assert judge.chosen(found[:2], 4) == found[:2]


def test_a_transcript_with_gaps(tmp_path: Path) -> None:
    def asked(number: int, tool: str) -> dict[str, object]:
        return {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": {}}}

    failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
    rows = [
        ("proxy", {"connected": 1}),
        ("client", asked(1, "session_next")),
        ("client", "not JSON"),
        ("server", {"method": "notifications/progress"}),
        ("proxy", {"connected": 2}),
        ("client", asked(1, "kernel_check")),
        ("server", {"id": 1, "result": failed}),
        ("client", asked(2, "kernel_check")),
        ("server", {"id": 2, "error": {"code": -32602, "message": "bad"}}),
    ]
    path = tmp_path / "transcript.jsonl"
    lines = [
        json.dumps({"at": 100.0 + at, "from": who, "message": message})
        for at, (who, message) in enumerate(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    calls = transcript.read(path, 100.0)
    assert [(c.tool, c.error) for c in calls] == [
        ("session_next", "unanswered"),
        ("kernel_check", "unknown"),
        ("kernel_check", "protocol"),
    ]
    assert (calls[1].at, calls[1].seconds) == (5.0, 1.0)


BODY = "\n".join(f"value_{k} = compute_part_{k}(x)" for k in range(12))
OTHER = "\n".join(f"total_{k} = other_piece_{k}(y)" for k in range(12))


@pytest.mark.parametrize(
    ("role", "named", "source", "expected"),
    [
        ("improve", True, BODY + "\nmore = 1", True),
        ("improve", False, BODY + "\nmore = 1", True),
        ("improve", True, OTHER, False),
        ("repair", True, BODY, True),
        ("draft", True, OTHER, True),
        ("draft", True, BODY, False),
        ("tune", True, BODY, False),
    ],
)
def test_an_ask_is_followed_by_what_its_role_wants(
    role: str, named: bool, source: str, expected: bool
) -> None:
    first = Node("n1", 1, (), "c1", "e1", "correct", 1.2, eligible=True, structure="s1", created=1)
    parents = () if role == "draft" else ("n1",)
    ask = Ask(1, parents, "parent", role, created=2)  # type: ignore[arg-type]
    later = Ask(2, parents, "parent", role, created=9)  # type: ignore[arg-type]
    second = replace(
        first,
        id="n2",
        seq=2,
        parents=parents,
        candidate="c2",
        fitness=1.5,
        ask=1 if named else None,
        structure="s2",
        created=3,
    )
    tree = Tree((first, second), (ask, later))
    texts = {"n1": BODY, "n2": source}
    answered, left = following.followed(tree, ("a1", "a2"), lambda node: texts[node.id])
    assert (answered.answered_by, answered.followed) == ("n2", expected)
    assert answered.improved is (None if role == "draft" else True)
    assert (left.answered_by, left.followed) == ("", False)
    assert following.left_open(tree, [answered, left])


@pytest.mark.parametrize(("candidate", "expected"), [("c2", True), ("c1", False)])
def test_an_improvement_of_a_start_may_be_a_new_design(candidate: str, expected: bool) -> None:
    """As its ask says."""
    start = Node("n1", 1, (), "c1", "e1", "correct", 0.4, origin=USER_FILE, created=1)
    ask = Ask(1, ("n1",), "parent", "improve", created=2)
    own = replace(
        start, id="n2", seq=2, parents=("n1",), origin=None, ask=1, candidate=candidate, created=3
    )
    texts = {"n1": BODY, "n2": OTHER}
    (row,) = following.followed(Tree((start, own), (ask,)), ("a1",), lambda node: texts[node.id])
    assert row.followed is expected


def test_a_kernel_in_passing_answers_no_ask() -> None:
    ask = Ask(1, ("n1",), "parent", "improve", created=2)
    first = Node("n1", 1, (), "c1", "e1", "correct", 1.2, created=1)
    tree = Tree((first, replace(first, id="n2", seq=2, created=3)), (ask,))
    (row,) = following.followed(tree, ("a1",), lambda node: "")
    assert not row.answered_by
    assert not following.left_open(tree, [row]), "something was handed in after it"


@pytest.mark.parametrize(("target", "name"), TASKS)
def test_a_task_resolves_and_its_start_can_be_tuned(target: str, name: str) -> None:
    folder = plan.FOLDERS[target] / name
    held = (folder / "task.heldout.py").read_text()
    task = task_file.read((folder / "task.py").read_text(), f"{name}.py", held)
    assert any(case.held_out for case in task.cases)
    assert len([case for case in task.cases if not case.held_out]) >= 2
    (start,) = folder.glob("start*.py")
    candidate = Candidate(start.read_text(), plan.LANGUAGES[target])
    assert candidate.params().keys() == candidate.tunables().keys() != set()


def test_there_are_tasks_that_no_example_answers() -> None:
    examples = {path.name for path in (plan.ROOT / "examples").iterdir()}
    assert len(plan.task_names("cpu")) == 10
    assert len(plan.task_names("cuda")) == 5
    assert not examples & {name for _, name in TASKS}


def test_the_templates_of_agent_programs_are_filled_in(tmp_path: Path) -> None:
    for name in ("scripted", "claude", "codex"):
        agreed = laid(tmp_path / name, agent=name)
        words = run.command(tmp_path / name, agreed)
        assert not [word for word in words if "{run}" in word or "{prompt}" in word]
        assert any(str(tmp_path / name) in word for word in words)
    with pytest.raises(SystemExit, match="no command without_server"):
        run.command(tmp_path / "scripted", laid(tmp_path / "other", with_server=False))
    with pytest.raises(SystemExit, match="there is no task 'haaar'"):
        plan.lay(tmp_path / "none", Plan("haaar", "scripted"))
    with pytest.raises(SystemExit, match="holds a run"):
        laid(tmp_path / "claude")
