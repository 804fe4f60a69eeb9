"""`kevolve optimize` with authors that are not the offline one: a model on loopback, and a
command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kevolve_mcp.cli import serve
from kevolve_mcp.synthesis.authors import llm
from kevolve_mcp.synthesis.authors.providers import Backoff
from tests.synthesis.model_server import Reply, asked, blocks, serving

from .conftest import Kevolve

FAKE_KEVOLVE = Path(__file__).with_name("fake_kevolve.py")
DATA = Path(__file__).parents[1] / "data" / "candidates"
FEW = ("--no-skills", "--evaluations", 4)


def kernel(number: int, speedup: float = 1.5) -> str:
    return f"""# fake: speedup={speedup + number / 10}
from harness.native import load_cpp

lib = load_cpp("// {number}")


class ModelNew:
    pass
"""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "KEVOLVE_API_KEY"):
        monkeypatch.delenv(key, raising=False)


@pytest.fixture
def model() -> str:
    pytest.importorskip("pydantic_ai", reason="the extra [llm] is not installed")
    return "openai:tiny"


def tree(kevolve: Kevolve, session: str) -> dict[str, Any]:
    result = kevolve("tree", session, "--json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def test_a_model_writes_the_candidates(kevolve: Kevolve, task: Path, model: str) -> None:
    """Garbage and a rate limit on the way; what it predicts and uses is recorded with its nodes."""

    def answer(body: dict[str, Any], number: int) -> Reply:
        if number == 0:
            return Reply("slow down", 429)
        if number == 1:
            return Reply("I would rather talk about it.")
        return Reply(blocks(kernel(number), hypothesis=f"idea {number}", predicted_speedup=1.1))

    with serving(answer) as server:
        result = kevolve(
            "optimize", task, *FEW, "--author", model, "--base-url", server.url, "--json"
        )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["spent"]["tokens"] == 4 * 1200
    assert report["lineage"][-1]["hypothesis"].startswith("idea")
    assert report["package"]
    assert "asking again" in result.stderr
    nodes = tree(kevolve, report["session"])["nodes"]
    assert [n["origin"] for n in nodes] == [
        {"kind": "user_file", "name": ""},
        None,
        None,
        None,
    ]
    assert nodes[1]["predicted_speedup"] == 1.1
    shown = kevolve("show", report["session"], "n2", "--section", "context").stdout
    first = asked(server.requests[0])
    kept = shown.partition("\n")[2].strip()[:2000]
    assert kept.startswith("## Ask a2")
    assert kept in first  # the context is the text that session_next hands to any agent
    assert "kernel_submit" in first


def test_its_caps_hold(kevolve: Kevolve, task: Path, model: str) -> None:
    """Also over a run that is resumed: the session counts, not the run."""
    priced = ("--price-in", 1, "--price-out", 10, "--usd", 0.02, "--minutes", 5, "--no-skills")
    with serving(lambda body, number: Reply(blocks(kernel(number)), usage=(1000, 500))) as server:
        result = kevolve(
            "optimize", task, *priced, "--author", model, "--base-url", server.url, "--json"
        )
        assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        assert report["reason"] == "budget_spent"
        assert 0 < report["spent"]["usd"] <= 0.02
        assert report["spent"]["usd"] == pytest.approx(len(server.requests) * 0.006)
        tokens = kevolve(
            "optimize",
            task,
            "--new",
            "--tokens",
            9000,
            "--no-skills",
            "--author",
            model,
            "--base-url",
            server.url,
        )
        assert tokens.exit_code == 0, tokens.output
        assert re.search(r"of 9,000 tokens|tokens are left, too few", tokens.stderr), tokens.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--author", "openai:tiny", "--base-url", "http://127.0.0.1:9/v1", "--usd", "1"],
            2,
            "--price-in",
        ),
        (["--author", "openai:tiny", "--base-url", "nowhere"], 2, "is not the URL"),
        (["--author", "openai:gpt-4o"], 2, "OPENAI_API_KEY"),
        (
            ["--author", "openai:tiny", "--base-url", "http://127.0.0.1:9/v1", "--price-in", "1"],
            2,
            "must be given together",
        ),
        (["--base-url", "http://127.0.0.1:9/v1"], 2, "only apply to models"),
        (["--author", "cmd: no-such-agent"], 2, "'no-such-agent' was not found"),
        (["--author", "cmd:"], 2, "has no command"),
        (["--author", "shakespeare"], 2, "openai:MODEL"),
        (["--resume", "scale-0000", "--goal", "best"], 2, "--resume takes no --goal"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_opened(
    kevolve: Kevolve, task: Path, model: str, arguments: list[str], code: int, said: str
) -> None:
    result = kevolve("optimize", *([] if "--resume" in arguments else [task]), *FEW, *arguments)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "opened scale" not in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("status", "code", "said"), [(401, 2, "KEVOLVE_API_KEY"), (500, 1, "kevolve optimize --resume")]
)
def test_a_provider_that_fails_leaves_a_session_to_resume(
    kevolve: Kevolve,
    task: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(llm, "Backoff", lambda: Backoff(0.01, 0.02, 0.1, 0.1))
    with serving(lambda body, number: Reply("no", status)) as server:
        result = kevolve("optimize", task, *FEW, "--author", model, "--base-url", server.url)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    found = re.search(r"opened (\S+):", result.stderr)
    assert found is not None
    resumed = kevolve("optimize", "--resume", found[1], "--no-skills", "--json")
    assert json.loads(resumed.stdout)["nodes"] == 4


AGENT = """
import json, pathlib, re, subprocess, sys
folder = pathlib.Path('.')
text = (folder / 'ask.md').read_text()
ask = re.search(r'Ask (a\\d+)', text)[1]
assert (folder / 'task.py').exists() and 'class Model' in (folder / 'task.py').read_text()
version = subprocess.check_output(['kevolve', '--version'], text=True)
print('working on', ask, 'with', version)
(folder / 'candidate.py').write_text('''{kernel}'''.replace('// 0', '// ' + ask))
json.dump(dict(hypothesis='idea for ' + ask, predicted_speedup=1.2, rationale='because', tokens=100), open('answer.json', 'w'))
"""  # noqa: E501


def test_a_command_writes_the_candidates(
    kevolve: Kevolve, task: Path, tmp_path: Path, home: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.replace("{kernel}", kernel(0)))
    result = kevolve(
        "optimize",
        task,
        *FEW,
        "--tokens",
        10_000,
        "--author",
        f"cmd: {sys.executable} {agent}",
        "--json",
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["nodes"] == 4
    assert report["spent"]["tokens"] == 300
    assert report["lineage"][-1]["hypothesis"].startswith("idea for a")
    transcripts = sorted((home / "transcripts" / report["session"]).iterdir())
    assert [t.stem for t in transcripts] == ["a2", "a3", "a4"]
    assert "working on a2 with kevolve " in transcripts[0].read_text()


def test_a_command_without_a_candidate_ends_the_run_with_its_transcript(
    kevolve: Kevolve, task: Path, home: Path
) -> None:
    result = kevolve("optimize", task, *FEW, "--author", "cmd: echo I am out of ideas")
    assert result.exit_code == 1
    assert "its last line: I am out of ideas" in result.stderr
    assert str(home / "transcripts") in result.stderr
    assert "kevolve optimize --resume" in result.stderr


def test_ctrl_c_ends_the_command_with_all_it_started(task: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"cmd: sleep 60 & echo $$ $! > {pids}; wait"
    call = [
        sys.executable,
        str(FAKE_KEVOLVE),
        "optimize",
        str(task),
        "--no-skills",
        "--evaluations",
        "4",
        "--author",
        command,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        ),
    }
    process = subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("n1 best"):
            break
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "kevolve optimize --resume" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split())


@pytest.mark.usefixtures("server_process")
def test_a_model_and_the_real_judge(
    kevolve: Kevolve, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, judge_cache: Path
) -> None:
    """The tiny task, really compiled, verified and timed: a broken kernel, a wrong one and a right
    one by a model."""
    monkeypatch.setattr(serve, "SERVER", ("-P", "-m", "kevolve_mcp.cli.serve"))
    monkeypatch.setenv("KEVOLVE_CACHE", str(judge_cache))
    monkeypatch.setenv("KEVOLVE_TIMING_EFFORT", "0.2")
    task = tmp_path / "one_case.py"
    text = re.sub(r"CASES = .*", 'CASES = {"small": {"rows": 16}}', (DATA / "task.py").read_text())
    task.write_text(re.sub(r"HELD_OUT = .*\n", "", text))
    right = (DATA / "correct.py").read_text()
    broken = right.replace("float s = 0;", "float s = 0")
    wrong = right.replace("* w[j] + s", "* w[j] - s")
    answers = [broken, wrong, right.replace('PARAMS = {"UNROLL": 1}', 'PARAMS = {"UNROLL": 2}')]
    with serving(
        lambda body, number: Reply(blocks(answers[number], hypothesis=f"idea {number}"))
    ) as server:
        result = kevolve(
            *(
                "optimize",
                task,
                "--no-skills",
                "--evaluations",
                len(answers),
                "--python",
                sys.executable,
            ),
            *("--author", model, "--base-url", server.url, "--json"),
        )
    report = json.loads(result.stdout)
    statuses = [n["status"] for n in tree(kevolve, report["session"])["nodes"]]
    assert statuses == ["build_failed", "incorrect", "correct"], result.output
    assert report["spent"]["tokens"] == 3600
    assert report["cases"]
    assert (Path(report["package"]) / "manifest.json").is_file()
