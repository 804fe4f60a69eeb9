"""The program as a whole: version, start-up, errors, exit codes."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path

import pytest

from kevolve_mcp import __version__
from kevolve_mcp.cli import serve

from .conftest import Kevolve

COMMANDS = (
    "serve optimize evaluate compile tree show diff knowledge export sessions doctor template"
)


def test_version(kevolve: Kevolve) -> None:
    assert kevolve("--version").stdout == f"kevolve {__version__}\n"


def test_the_server_is_one_function_under_two_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.app.registered_commands[0].callback is serve.serve
    with pytest.raises(SystemExit) as ended:
        serve.app(["--port", "1", "--root", "/x"], prog_name="kevolve-mcp")
    assert ended.value.code == 2
    assert "--port, --root has no meaning over stdio" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        serve.app(["--version"], prog_name="kevolve-mcp")
    assert capsys.readouterr().out == f"kevolve-mcp {__version__}\n"


def test_help_names_every_command(kevolve: Kevolve) -> None:
    shown = kevolve("--help").stdout
    assert all(command in shown for command in COMMANDS.split())
    for command in COMMANDS.split():
        assert kevolve(command, "--help").exit_code == 0


def test_an_unknown_command_is_a_usage_error(kevolve: Kevolve) -> None:
    result = kevolve("optimise", "x")
    assert result.exit_code == 2
    assert "optimise" in result.stderr


def test_starting_up_imports_nothing_heavy() -> None:
    """What makes `kevolve --help` slow would be one of these, imported at the top of a command's
    module."""
    heavy = (
        "torch",
        "mcp",
        "sqlalchemy",
        "optuna",
        "pydantic",
        "rich.table",
        "anyio",
        "kevolve_mcp.driver",
    )
    code = f"import sys, kevolve_mcp.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trace_only_with_debug(kevolve: Kevolve, tmp_path: Path) -> None:
    plain = kevolve("evaluate", tmp_path / "gone.py", "x.py")
    assert plain.exit_code == 2
    assert "Traceback" not in plain.output
    debugged = kevolve("--debug", "evaluate", tmp_path / "gone.py", "x.py")
    assert debugged.exception is not None
    assert "no such task" in str(debugged.exception)


def test_a_defect_is_said_to_be_one(
    kevolve: Kevolve, monkeypatch: pytest.MonkeyPatch, task: Path
) -> None:
    from kevolve_mcp.cli import judging

    def broken(*_: object, **__: object) -> None:
        raise builtins.ExceptionGroup("from a task group", [RuntimeError("wires crossed")])

    monkeypatch.setattr(judging, "order_candidates", broken)
    result = kevolve("evaluate", task, "x.py")
    assert result.exit_code == 1
    assert "RuntimeError: wires crossed" in result.stderr
    assert "--debug" in result.stderr
