"""What the looking commands print on a terminal: nothing is folded within a word, for want of
room."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kevolve_mcp.cli import terminal
from kevolve_mcp.cli.failures import report
from kevolve_mcp.cli.render.board import board_view
from kevolve_mcp.cli.running import Watcher
from kevolve_mcp.cli.terminal import announcer
from kevolve_mcp.driver.events import Remark, Working
from kevolve_mcp.errors import UsageError

from .conftest import Kevolve

COLUMNS = 100
PROGRAM = "from kevolve_mcp.cli.main import main; main()"


HOSTILE = "\x1b]0;owned\x07\x1b[2Jhello\u202e\r\n\tworld"
TOLD = " ]0;owned  [2Jhello  \n\tworld"


def shown(*arguments: str) -> list[str]:
    """The lines of a command on a terminal of 100 columns, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the end of a terminal whose program is gone
        pass
    os.close(ours)
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0, errors
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()


@pytest.fixture
def session(kevolve: Kevolve, task: Path) -> str:
    start = task / "start.py"
    start.write_text(start.read_text().replace("speedup=1.2", "speedup=1.2\n# fake: noise=0.3"))
    done = kevolve("optimize", task, "--evaluations", 2, "--no-skills")
    found = re.search(r"kevolve tree (\S+)", done.stdout)
    assert found, done.output
    return found[1]


# eight programs, one after the other
@pytest.mark.timeout(240)
def test_prose_is_wrapped_at_words_to_the_width(session: str) -> None:
    for arguments in (
        ("sessions",),
        ("tree", session),
        ("show", session, "n1"),
        ("show", session, "n1", "--section", "cases"),
        ("show", session, "n1", "--section", "stages"),
        ("show", session, "n1", "--section", "profile"),
        ("knowledge", "search", "vectorization"),
        ("skills", "list"),
    ):
        lines = shown(*arguments)
        assert len(lines) > 1
        assert [line for line in lines if len(line) > COLUMNS] == [], arguments


def test_what_a_server_says_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(UsageError(HOSTILE, HOSTILE), as_json=False)
    assert capsys.readouterr().err == f"error: {TOLD}\nhint: {TOLD}\n"
    monkeypatch.setattr(terminal, "is_live", lambda: True)
    announcer(quiet=False)(HOSTILE)
    with Watcher(live=False) as watcher:
        watcher.say(HOSTILE)
        watcher(Working("open", HOSTILE, 0.5))
        watcher(Remark(HOSTILE))
        terminal.err().print(board_view(watcher.board))
    said = capsys.readouterr().err
    assert said.count("hello") == 5
    assert not set("\x1b\x07\u202e\r") & set(said)


def test_a_source_is_printed_as_it_is(session: str, task: Path) -> None:
    said = "\n".join(shown("show", session, "n1", "--section", "source"))
    assert (task / "start.py").read_text().rstrip() in said
