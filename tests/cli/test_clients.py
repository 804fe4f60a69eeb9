"""`kevolve connect`: what coding agents need to start this installation's server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tomllib

from .conftest import Kevolve

FILES = {
    "claude": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
}
KEYS = {"claude": "mcpServers", "cursor": "mcpServers", "vscode": "servers", "codex": "mcp_servers"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder and the user's are one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KEVOLVE_HOME", str(tmp_path / "kept here"))
    return tmp_path


def parsed(client: str, text: str) -> dict[str, object]:
    found: dict[str, object] = (tomllib.loads if client == "codex" else json.loads)(text)[
        KEYS[client]
    ]["kevolve"]
    return found


@pytest.mark.parametrize("client", FILES)
def test_printed_and_written_are_the_same_and_name_this_interpreter(
    kevolve: Kevolve, folder: Path, client: str
) -> None:
    printed = kevolve("connect", client)
    assert printed.exit_code == 0, printed.output
    values = parsed(client, printed.stdout)
    assert values["command"] == sys.executable
    assert values["args"] == ["-P", "-m", "kevolve_mcp.cli.serve"]
    assert (
        values["env"]
        == {"KEVOLVE_HOME": str(folder / "kept here"), "KEVOLVE_CACHE": str(folder / "cache")}
        | _python()
    )
    assert not (folder / FILES[client]).exists()
    assert kevolve("connect", client, "--write").exit_code == 0
    assert parsed(client, (folder / FILES[client]).read_text()) == values
    assert "already has this entry" in kevolve("connect", client, "--write").stdout


def _python() -> dict[str, str]:
    import os

    return (
        {"KEVOLVE_PYTHON": os.environ["KEVOLVE_PYTHON"]} if os.environ.get("KEVOLVE_PYTHON") else {}
    )


def test_other_entries_stay(kevolve: Kevolve, folder: Path) -> None:
    (folder / ".mcp.json").write_text(
        '{"mcpServers": {"other": {"command": "x"}, "kevolve": {"command": "old"}}, "more": [1]}'
    )
    assert kevolve("connect", "claude", "--write").exit_code == 0
    data = json.loads((folder / ".mcp.json").read_text())
    assert (data["more"], data["mcpServers"]["other"]) == ([1], {"command": "x"})
    assert data["mcpServers"]["kevolve"]["command"] == sys.executable
    (folder / ".codex").mkdir()
    toml = '# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "x"\n'
    (folder / ".codex/config.toml").write_text(toml)
    assert kevolve("connect", "codex", "--write").exit_code == 0
    assert (folder / ".codex/config.toml").read_text().startswith(toml)


def test_what_cannot_be_kept_is_refused_and_left_alone(kevolve: Kevolve, folder: Path) -> None:
    (folder / ".codex").mkdir()
    for client, text, why in (
        ("claude", '{"mcpServers": {}, // mine\n}', "is not plain JSON"),
        ("claude", '{"mcpServers": []}', "has no object 'mcpServers'"),
        ("codex", "[mcp_servers.kevolve]\ncommand = 'old'\n", "has another entry"),
        ("codex", "[mcp_servers", "cannot be read"),
    ):
        (folder / FILES[client]).write_text(text)
        refused = kevolve("connect", client, "--write")
        assert refused.exit_code == 2, refused.output
        assert why in refused.stderr
        assert (folder / FILES[client]).read_text() == text
    assert kevolve("connect", "emacs").exit_code == 2
