"""The author that runs a command, with small scripts in place of an agent program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis.authors import (
    VENDORS,
    AskAllowance,
    AskContext,
    AuthorError,
    AuthorOptions,
    AuthorUnusable,
    CommandAuthor,
    StartView,
    choose_author,
    supervisor,
)
from kevolve_mcp.synthesis.authors.command import HEAD, TAIL, Transcript

from .helpers import ask, parent
from .test_answers import KERNEL

pytestmark = pytest.mark.anyio


def question(**changes: Any) -> AskContext:
    return replace(
        ask("improve", parent(1, KERNEL, 1.25), seed=7),
        **{"text": "the text of the ask", **changes},
    )


@pytest.fixture
def stand_in(tmp_path: Path) -> Any:
    """Writes a Python script and gives an author that runs it; the kernel is beside it as
    kernel.py."""
    (tmp_path / "kernel.py").write_text(KERNEL)

    def author(script: str, **options: Any) -> CommandAuthor:
        path = tmp_path / "agent.py"
        head = (
            "import json, os, pathlib, shutil, subprocess, sys, time\n"
            f"KERNEL = {str(tmp_path / 'kernel.py')!r}\nOUT = pathlib.Path({str(tmp_path)!r})\n"
        )
        path.write_text(head + script)
        return CommandAuthor(
            f"{sys.executable} {path}", **{"transcripts": tmp_path / "kept", **options}
        )

    return author


WRITES = "shutil.copy(KERNEL, 'candidate.py')\n"


async def test_the_folder_holds_the_context_and_the_answer_is_read(
    stand_in: Any, tmp_path: Path
) -> None:
    script = """
files = sorted(str(p) for p in pathlib.Path('.').rglob('*') if p.is_file())
(OUT / 'seen.json').write_text(json.dumps({f: open(f).read() for f in files}))
assert sys.stdin.read() == ''
json.dump({'hypothesis': 'h', 'predicted_speedup': '1.3x', 'rationale': 'r', 'tokens': 700, 'usd': 0.02}, open('answer.json', 'w'))
print('thinking aloud'); print('and on stderr', file=sys.stderr)
"""  # noqa: E501
    proposal = await stand_in(script + WRITES).propose(question())
    assert (
        proposal.source,
        proposal.hypothesis,
        proposal.predicted_speedup,
        proposal.rationale,
    ) == (KERNEL, "h", 1.3, "r")
    assert (proposal.cost.tokens, proposal.cost.usd) == (700, 0.02)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert sorted(seen) == ["README.md", "ask.md", "parents/n1.py", "task.py", "template.py"]
    assert seen["ask.md"] == "the text of the ask"
    assert seen["parents/n1.py"] == KERNEL
    assert "F = 1.250" in seen["README.md"]
    assert "a7 of session" in seen["README.md"]
    (kept,) = (tmp_path / "kept" / "s-1").iterdir()
    assert kept.name == "a7.log"
    assert "thinking aloud\nand on stderr" in kept.read_text()


async def test_kevolve_is_on_its_path(stand_in: Any, tmp_path: Path) -> None:
    script = "(OUT / 'said').write_bytes(subprocess.check_output(['kevolve', 'a b', '$HOME']))\n"
    printing = (sys.executable, "-c", "import sys; print(sys.argv[1:])")
    await stand_in(script + WRITES, kevolve=printing).propose(question())
    assert (tmp_path / "said").read_text() == "['a b', '$HOME']\n"


async def test_nothing_of_a_run_is_left_behind(stand_in: Any, tmp_path: Path) -> None:
    script = "(OUT / 'where').write_text(os.getcwd())\n"
    author = stand_in(script + WRITES)
    await author.propose(question())
    first = Path((tmp_path / "where").read_text())
    assert not first.parent.exists()
    await author.propose(question())
    assert Path((tmp_path / "where").read_text()) != first
    assert sorted(p.name for p in (tmp_path / "kept" / "s-1").iterdir()) == ["a7-2.log", "a7.log"]


async def test_a_start_runs_nothing(stand_in: Any, tmp_path: Path) -> None:
    author = stand_in("(OUT / 'ran').touch()")
    assert (
        await author.propose(ask("start", start=StartView("x = 1", "user file")))
    ).source == "x = 1"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "print('I would rather not'); sys.exit(3)",
            "wrote no candidate.py .ended with exit status 3; its last line: I would rather",
        ),
        ("pass", "wrote no candidate.py .ended."),
        ("open('candidate.py', 'w').write('class ModelNew(')", "not valid Python"),
        ("open('candidate.py', 'w').write('class ModelNew: ...')", "must use load_cpp"),
        ("os.kill(os.getpid(), 9)", "exit status 137"),
    ],
)
async def test_what_cannot_be_used_is_told_with_the_transcript(
    stand_in: Any, script: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(AuthorError, match=said) as caught:
        await stand_in(script).propose(question())
    assert not isinstance(caught.value, AuthorUnusable)
    assert str(tmp_path / "kept") in caught.value.hint


async def test_a_broken_answer_or_exit_status_does_not_lose_the_candidate(stand_in: Any) -> None:
    heard: list[str] = []
    script = "open('answer.json', 'w').write('{oops')\nsys.stdout.flush()\n"
    author = stand_in(script + WRITES + "sys.exit(1)", listen=heard.append)
    assert (await author.propose(question())).source == KERNEL
    assert any("answer.json is not valid JSON" in line for line in heard)
    assert any("exit status 1" in line for line in heard)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


# A child in the group, and a grandchild that has left it: all three sleep; their ids are written
# down.
FAMILY = """
child = subprocess.Popen(['sleep', '60'])
stray = subprocess.Popen(['sleep', '60'], start_new_session=True)
(OUT / 'pids').write_text(f'{os.getpid()} {child.pid} {stray.pid}')
"""


async def wait_for(path: Path) -> list[int]:
    with anyio.fail_after(20):
        while not path.exists() or len(path.read_text().split()) < 3:
            await anyio.sleep(0.02)
    return [int(p) for p in path.read_text().split()]


async def test_when_its_time_is_up_everything_it_started_is_killed(
    stand_in: Any, tmp_path: Path
) -> None:
    heard: list[str] = []
    author = stand_in(WRITES + FAMILY + "time.sleep(60)", limit_s=1.5, listen=heard.append)
    # what stands there when the time is up counts
    assert (await author.propose(question())).source == KERNEL
    assert "time was up" in heard[0]
    assert all(gone(pid) for pid in await wait_for(tmp_path / "pids"))


async def test_a_command_that_ends_leaves_no_process_behind(stand_in: Any, tmp_path: Path) -> None:
    await stand_in(WRITES + FAMILY).propose(question())
    assert all(gone(pid) for pid in await wait_for(tmp_path / "pids"))


async def test_cancelling_kills_everything_it_started(stand_in: Any, tmp_path: Path) -> None:
    author = stand_in(FAMILY + "time.sleep(60)")
    async with anyio.create_task_group() as group:
        group.start_soon(author.propose, question())
        pids = await wait_for(tmp_path / "pids")
        group.cancel_scope.cancel()
    assert all(gone(pid) for pid in pids)


def test_the_command_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    """Also when that one is killed: the supervisor notices that its stdin has closed."""
    pids = tmp_path / "pids"
    command = f"sleep 60 & echo $$ $! > {pids}; wait"
    starter = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-I", {supervisor.__file__!r}, "60", {command!r}], stdin=subprocess.PIPE)
import time; time.sleep(60)
"""  # noqa: E501
    process = subprocess.Popen([sys.executable, "-c", starter])
    deadline = time.monotonic() + 20
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    while not all(gone(int(p)) for p in pids.read_text().split()):
        assert time.monotonic() < deadline, "the command outlived its starter"
        time.sleep(0.02)


async def test_the_session_s_time_bounds_the_run(stand_in: Any) -> None:
    seconds = "print(open('README.md').read())"
    with pytest.raises(AuthorError) as caught:
        await stand_in(seconds).propose(question(allowance=AskAllowance(seconds=42.4)))
    assert "after 42 seconds" in Path(caught.value.hint.removeprefix("Its output: ")).read_text()


async def test_a_cap_that_nothing_is_counted_against_is_refused(stand_in: Any) -> None:
    with pytest.raises(AuthorUnusable, match="limits usd"):
        await stand_in(WRITES).propose(question(allowance=AskAllowance(usd=1.0)))
    counted = WRITES + "open('answer.json', 'w').write('{\"tokens\": 5}')"
    assert (
        await stand_in(counted).propose(question(allowance=AskAllowance(tokens=10)))
    ).cost.tokens == 5


async def test_missing_programs_are_told_before_and_while_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(AuthorUnusable, match="'no-such-agent' was not found"):
        CommandAuthor("no-such-agent --batch")
    with pytest.raises(AuthorUnusable, match="was not found"):
        await CommandAuthor("cd . && no-such-agent").propose(question())
    with pytest.raises(UsageError, match="has no command"):
        choose_author("cmd:  ")
    monkeypatch.setenv("PATH", os.defpath)
    for name in VENDORS:
        with pytest.raises(AuthorUnusable, match=f"'{name}' was not found"):
            choose_author(name)


@pytest.mark.parametrize("name", sorted(VENDORS))
async def test_a_vendor_s_template_is_one_command_of_its_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its quoting survives the shell, and the prompt reaches the program as one argument."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    program = tmp_path / name
    program.write_text(
        f"#!{sys.executable}\nimport json, shutil, sys\n"
        f"json.dump(sys.argv[1:], open({str(tmp_path / 'argv')!r}, 'w'))\n"
        f"shutil.copy({str(tmp_path / 'kernel.py')!r}, 'candidate.py')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (
        await choose_author(name, AuthorOptions(transcripts=tmp_path / "kept")).propose(question())
    ).source == KERNEL
    argv = json.loads((tmp_path / "argv").read_text())
    assert sum("README.md" in argument for argument in argv) == 1


def test_a_transcript_keeps_its_beginning_and_its_end() -> None:
    kept = Transcript()
    kept.add(b"first\n")
    for number in range(3000):
        kept.add(b"%06d " % number * 100 + b"\n")
    kept.add("last ✓\n".encode())
    assert kept.text().startswith("first")
    assert "bytes left out" in kept.text()
    assert kept.last_line() == "last ✓"
    assert len(kept.text()) < HEAD + TAIL + 100
