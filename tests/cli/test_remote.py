"""The command line with a server that runs already: `--server URL`, KEVOLVE_SERVER."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kevolve_mcp import api
from kevolve_mcp.cli.backend import choose
from kevolve_mcp.cli.backend.remote import Remote
from kevolve_mcp.cli.running import copy_package
from kevolve_mcp.driver import RunOutcome
from kevolve_mcp.errors import UsageError
from kevolve_mcp.server.http.token import find_token
from tests.server.serving import TOKEN, Serving

from .conftest import Kevolve
from .test_stopped import SCRIPT, until

QUICK = ("--evaluations", 4, "--no-skills")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A server with a home and a root of its own, neither of which holds the tests' task."""
    (tmp_path / "served").mkdir()
    with Serving(tmp_path / "there", tmp_path / "served") as running:
        yield running


@pytest.fixture
def at(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("KEVOLVE_TOKEN", TOKEN)
    return ("--server", serving.url)


def test_a_search_from_the_task_to_the_package(
    kevolve: Kevolve,
    task: Path,
    tmp_path: Path,
    home: Path,
    at: tuple[str, ...],
    serving: Serving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (task / "task.heldout.py").write_text("")
    result = kevolve("optimize", task, *QUICK, *at, "--output", tmp_path / "copy", "--json")
    assert result.exit_code == 0, result.output
    assert f"starting from {task / 'start.py'}" in result.stderr
    assert "task.heldout.py is not sent" in result.stderr
    report = json.loads(result.stdout)
    assert report["nodes"] == 4
    assert report["package"] == str(tmp_path / "copy")
    assert (tmp_path / "copy" / "bench.py").is_file()
    assert (tmp_path / "copy" / "manifest.json").is_file()
    assert list((serving.home / "exports").iterdir())
    assert not home.exists()
    judged = kevolve("evaluate", "--package", tmp_path / "copy")
    assert judged.exit_code == 0, judged.output

    session = report["session"]
    assert session in kevolve("sessions", *at).stdout
    assert session not in kevolve("sessions").stdout
    monkeypatch.setenv("KEVOLVE_SERVER", serving.url.removesuffix("/mcp"))
    assert len(json.loads(kevolve("tree", session, "--json").stdout)["nodes"]) == 4
    assert "class ModelNew" in kevolve("show", session, "n1", "--section", "source").stdout
    assert kevolve("diff", session, "n2", "n1").exit_code == 0
    assert "guidance/" in kevolve("knowledge", "search", "vectorization").stdout
    assert "Vectorization" in kevolve("knowledge", "read", "guidance/vectorization").stdout
    assert "compiles" in kevolve("compile", task, task / "start.py").stdout
    exported = kevolve("export", session, "--output", tmp_path / "second", "--json")
    assert json.loads(exported.stdout)["package"] == str(tmp_path / "second")
    assert (tmp_path / "second" / "kernel.py").read_text() == (
        tmp_path / "copy" / "kernel.py"
    ).read_text()


def test_the_token_of_the_home_is_found_on_this_machine(
    kevolve: Kevolve, home: Path, tmp_path: Path
) -> None:
    token = find_token(None, home).value
    with Serving(tmp_path / "there", tmp_path, token=token) as serving:
        assert kevolve("sessions", "--server", serving.url).exit_code == 0
        assert (
            kevolve("sessions", "--server", serving.url.replace("127.0.0.1", "localhost")).exit_code
            == 0
        )
        wrong = kevolve("sessions", "--server", serving.url, "--token", "x" * 20)
        assert wrong.exit_code == 2
        assert "the bearer token is wrong" in wrong.stderr
        assert "Traceback" not in wrong.output


def test_a_server_that_is_killed_and_started_again_is_waited_for(
    task: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_TOKEN", TOKEN)
    (task / "start.py").write_text("# fake: seconds=0.3\n" + (task / "start.py").read_text())
    command = [
        sys.executable,
        str(SCRIPT),
        "optimize",
        str(task),
        "--evaluations",
        "5",
        "--no-skills",
        "--server",
        serving.url,
    ]
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parents[2]))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = until(process, "n1 correct")
    serving.stop(signal.SIGKILL)
    said += until(process, "connecting again")
    serving.start()
    stdout, stderr = process.communicate(timeout=90)
    assert process.returncode == 0, stderr
    assert "search over: budget_spent" in stderr
    nodes = re.findall(r"^(n\d+) correct", said + stderr, re.MULTILINE)
    assert len(nodes) == len(set(nodes))
    assert "over the strongest baseline" in stdout


def test_ctrl_c_cancels_on_the_server_and_says_how_to_resume(
    kevolve: Kevolve,
    task: Path,
    at: tuple[str, ...],
    serving: Serving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (task / "start.py").write_text("# fake: seconds=0.5\n" + (task / "start.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parents[2]))
    command = [
        sys.executable,
        str(SCRIPT),
        "optimize",
        str(task),
        "--evaluations",
        "4",
        "--no-skills",
        *at,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(process, "n1 correct")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert serving.process.poll() is None
    found = re.search(r"kevolve optimize --resume (\S+) --server (\S+)", stderr)
    assert found is not None, stderr
    assert found[2] == serving.url
    resumed = kevolve("optimize", "--resume", found[1], "--no-skills", "--json", *at)
    assert resumed.exit_code == 0, resumed.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--server", "http://127.0.0.1:9", "--token", TOKEN], 1, "no server answers"),
        (["--server", "http://127.0.0.1:9"], 2, "no token for"),
        (["--server", "http://gpu-box:8765"], 2, "is not sent to other machines"),
        (["--server", "ftp://127.0.0.1"], 2, "not the URL"),
        (["--server", "127.0.0.1:8765"], 2, "not the URL"),
        (["--server", "http://127.0.0.1:port"], 2, "not a URL"),
        (["--server", f"http://u:{TOKEN}@127.0.0.1/"], 2, "may only have a host"),
        (["--server", f"http://127.0.0.1/mcp?token={TOKEN}"], 2, "may only have a host"),
        (
            ["--server", "http://127.0.0.1:9", "--token", "two words"],
            2,
            "a bearer token cannot have",
        ),
        (["--token", TOKEN], 2, "Name the server, too"),
    ],
)
def test_wrong_servers_are_answered_in_words(
    kevolve: Kevolve, arguments: list[str], code: int, said: str
) -> None:
    result = kevolve("sessions", *arguments)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert TOKEN not in result.output


def test_commands_of_an_author_find_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_SERVER", "http://127.0.0.1:1")
    found = Remote.at("http://127.0.0.1:2", TOKEN)
    with found.inherited():
        again = choose()
        assert isinstance(again, Remote)
        assert (again.url, again.token()) == (found.url, TOKEN)
    assert os.environ["KEVOLVE_SERVER"] == "http://127.0.0.1:1"
    assert "KEVOLVE_TOKEN" not in os.environ


def test_a_token_in_clear_on_the_network_is_warned_of(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Remote.at("http://gpu-box:8765", TOKEN)
    assert "unencrypted" in found.warning
    assert found.url == "http://gpu-box:8765/mcp"
    assert TOKEN not in repr(found)
    for url in ("https://gpu-box", "http://localhost:1/elsewhere", "http://[::1]:1"):
        assert not Remote.at(url, TOKEN).warning


@pytest.mark.parametrize(
    "name", ["../kernel.py", "/tmp/kernel.py", "a/b.py", "..", "", "a\\b.py", "a\0b"]
)
def test_a_server_cannot_write_outside_the_package(tmp_path: Path, name: str) -> None:
    session = api.Session(
        "scale-0000", "finished", task="scale", target="cpu", language="cpp", goal="best"
    )
    ending = api.Finished(
        session, "finished", "", package="/there", contents={"kernel.py": "x", name: "y"}
    )
    with pytest.raises(UsageError, match="sent a package with the file name"):
        copy_package(RunOutcome(session, "", 0, ending), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_files_are_judged_where_the_server_is(
    kevolve: Kevolve,
    task: Path,
    home: Path,
    at: tuple[str, ...],
    serving: Serving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (task / "task.heldout.py").write_text("")
    judged = kevolve("evaluate", task, task / "start.py", "--json", *at)
    assert judged.exit_code == 0, judged.output
    (verdict,) = json.loads(judged.stdout)
    assert verdict["status"] == "correct"
    wrong = task / "wrong.py"
    wrong.write_text("# fake: status=incorrect\nclass ModelNew: pass\n")
    both = kevolve("evaluate", task, task / "start.py", wrong, *at)
    assert both.exit_code == 1
    assert "task.heldout.py is not sent" in both.stderr
    assert "class ModelNew" in kevolve("template", task, *at).stdout
    found = json.loads(kevolve("doctor", "--json", *at).stdout)
    folders = {f["name"]: f["message"] for f in found["findings"]}
    assert str(serving.home) in folders["home"]
    assert f"KEvolve on the machine of {serving.url}" in kevolve("doctor", *at).stdout
    assert not home.exists()
    monkeypatch.setenv("KEVOLVE_SERVER", serving.url)
    assert kevolve("evaluate", task, wrong).exit_code == 1
    for command in (("doctor",), ("template", task), ("evaluate", task, wrong)):
        refused = kevolve(*command, "--python", "python3")
        assert refused.exit_code == 2
        assert "--python only works on this machine" in refused.stderr


def test_what_a_server_does_not_do_is_refused(
    kevolve: Kevolve, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVOLVE_SERVER", "http://127.0.0.1:1")
    for arguments in (
        ("approve", "scale-0000", "n1"),
        ("skills", "list"),
        ("knowledge", "list"),
        ("knowledge", "gaps"),
        ("knowledge", "similar", task),
    ):
        refused = kevolve(*arguments)
        assert refused.exit_code == 2, refused.output
        assert "on the machine where the server's home is" in refused.stderr
