"""`kevolve optimize` stopped by Ctrl-C and by kill -9, as a process of its own; and resumed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Kevolve

SCRIPT = Path(__file__).with_name("fake_kevolve.py")
SLOW = "# fake: seconds=0.3\n"


def start(task: Path) -> subprocess.Popen[str]:
    """An optimization that takes some seconds, its first node evaluated."""
    (task / "start.py").write_text(SLOW + (task / "start.py").read_text())
    command = [
        sys.executable,
        str(SCRIPT),
        "optimize",
        str(task),
        "--evaluations",
        "4",
        "--no-skills",
    ]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def until(process: subprocess.Popen[str], pattern: str) -> str:
    """The lines on stderr up to one that matches."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if re.search(pattern, line):
            return said
    raise AssertionError(f"ended without {pattern!r}: {said}")


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_SERVER_PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def session_of(said: str) -> str:
    found = re.search(r"opened (\S+):", said)
    assert found is not None
    return found[1]


def test_ctrl_c_stops_cleanly_and_says_how_to_resume(
    kevolve: Kevolve, task: Path, pids: Path
) -> None:
    process = start(task)
    said = until(process, "n1 correct")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert f"kevolve optimize --resume {session_of(said)}" in stderr
    assert "Traceback" not in stderr
    assert all(ended(int(p)) for p in pids.read_text().split())
    resumed = kevolve("optimize", "--resume", session_of(said), "--no-skills", "--json")
    assert resumed.exit_code == 0, resumed.output
    assert json.loads(resumed.stdout)["nodes"] >= 1


def test_kill_9_of_the_driver_ends_the_server_and_loses_no_node(
    kevolve: Kevolve, task: Path, pids: Path
) -> None:
    process = start(task)
    said = until(process, "n1 correct")
    process.kill()
    process.communicate(timeout=30)
    server = int(pids.read_text().split()[0])
    deadline = time.monotonic() + 20
    while not ended(server):
        assert time.monotonic() < deadline, "the server outlived its client"
        time.sleep(0.05)
    before = json.loads(kevolve("tree", session_of(said), "--json").stdout)["nodes"]
    assert before
    resumed = kevolve("optimize", "--resume", session_of(said), "--no-skills", "--json")
    assert resumed.exit_code == 0, resumed.output
    after = json.loads(kevolve("tree", session_of(said), "--json").stdout)["nodes"]
    assert [n["id"] for n in after][: len(before)] == [n["id"] for n in before]
