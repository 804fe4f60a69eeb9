"""Streams and settings that are not as they should be: the program as a process, as a shell starts
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Kevolve

CODE = "import sys; sys.argv[0] = 'kevolve'; from kevolve_mcp.cli import main; main()"
PAGE = ("knowledge", "read", "index")  # longer than a pipe's buffer together with what follows it


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-c", CODE, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    "arguments", [PAGE, (*PAGE, "--json"), ("--help",), ("--version",)], ids=" ".join
)
def test_a_full_disk_is_told_and_is_a_failure(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert "No space left on device" in said
    assert "Traceback" not in said
    assert "defect" not in said


@pytest.mark.parametrize("arguments", [PAGE, ("--help",)], ids=" ".join)
def test_a_reader_that_has_gone_is_no_news(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_stream_that_lacks_letters_gets_plain_ones(task: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C"}
    code = (
        "from kevolve_mcp.cli.terminal import settle, print_json; settle(); "
        "print('1.20× 3.0 µs – 漢'); print_json({'µ': '漢'}); "
        "import sys; print('×', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )
    first, _, rest = done.stdout.partition("\n")
    assert first == "1.20x 3.0 us - ?"
    assert json.loads(rest) == {"µ": "漢"}
    assert done.stderr == "x\n"


@pytest.mark.parametrize(
    "arguments", [("sessions",), ("doctor",), ("knowledge", "read", "index")], ids=" ".join
)
def test_a_setting_that_is_none_names_its_variable(
    kevolve: Kevolve, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KEVOLVE_MAX_WAIT_S", "abc")
    result = kevolve(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: KEVOLVE_MAX_WAIT_S is 'abc': ")
    assert "hint: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("tree", "--json"),
        ("show", "s", "--json", "--sektion", "x"),
        ("--json",),
        ("optimize", "--parallel", "none", "--json"),
    ],
    ids=" ".join,
)
def test_an_unreadable_command_line_is_json_where_json_was_asked_for(
    kevolve: Kevolve, arguments: tuple[str, ...]
) -> None:
    result = kevolve(*arguments)
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"
    assert result.stderr == ""
    plain = kevolve(*[a for a in arguments if a != "--json"])
    assert plain.exit_code == 2
    assert "╭" not in plain.output or arguments == ("--json",)  # alone, the program shows its help
