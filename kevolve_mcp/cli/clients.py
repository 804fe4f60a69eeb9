"""`kevolve connect`: the configuration with which a coding agent starts this installation's server,
printed or written."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tomllib
import typer

from kevolve_mcp.errors import UsageError

Name = Literal["claude", "codex", "cursor", "vscode"]
# settings to pass on, since clients start servers with an environment of their own
PASSED_ON = (
    "home",
    "cache",
    "database",
    "python",
    "skills",
    "vectors",
    "vectors_server",
    "timing_effort",
)


@dataclass(frozen=True)
class Client:
    """A coding agent. file: its configuration, below the current folder or (~) the user's. key: the
    object that holds all servers. more: what an entry has besides command and arguments."""

    file: str
    key: str
    more: dict[str, Any] = field(default_factory=dict)


CLIENTS: dict[Name, Client] = {
    "claude": Client(".mcp.json", "mcpServers"),
    "codex": Client(
        "~/.codex/config.toml", "mcp_servers", {"startup_timeout_sec": 60, "tool_timeout_sec": 600}
    ),
    "cursor": Client(".cursor/mcp.json", "mcpServers"),
    "vscode": Client(".vscode/mcp.json", "servers", {"type": "stdio"}),
}


def connect(
    client: Annotated[
        Name, typer.Argument(help="The coding agent: claude, codex, cursor or vscode.")
    ],
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help=(
                "Write it into the agent's file in this folder (codex: in the user's folder); "
                "other entries stay."
            ),
        ),
    ] = False,
) -> None:
    """Connect a coding agent to this installation: print its configuration, or write it."""
    known = CLIENTS[client]
    file = Path(known.file).expanduser()
    if not write:
        typer.echo(f"# for {known.file}; --write puts it there", err=True)
        typer.echo(entry(known))
        return
    before = _read(file)
    after = (
        _in_toml(before, known, file) if file.suffix == ".toml" else _in_json(before, known, file)
    )
    if after == before:
        typer.echo(f"{file} already has this entry")
        return
    _replace(file, after)
    typer.echo(f"{file} written; restart {client}, then check its list of MCP servers")


def server(client: Client) -> dict[str, Any]:
    """Return how to start the server: this interpreter, and the environment that it needs."""
    from kevolve_mcp.settings import variable

    from .serve import SERVER

    env = {name: os.environ[name] for name in map(variable, PASSED_ON) if os.environ.get(name)}
    return {
        "command": sys.executable,
        "args": list(SERVER),
        **client.more,
        **({"env": env} if env else {}),
    }


def entry(client: Client) -> str:
    """Return the whole file of a client that has no other server."""
    if client.file.endswith(".toml"):
        return _table(server(client), client.key)
    return json.dumps({client.key: {"kevolve": server(client)}}, indent=2)


def _table(values: dict[str, Any], key: str) -> str:
    """A TOML table. JSON's strings and lists of strings are valid TOML."""
    lines = [f"[{key}.kevolve]"] + [
        f"{name} = {json.dumps(value)}" for name, value in values.items() if name != "env"
    ]
    if "env" in values:
        lines += [
            "",
            f"[{key}.kevolve.env]",
            *(f"{name} = {json.dumps(value)}" for name, value in values["env"].items()),
        ]
    return "\n".join(lines)


def _in_json(before: str, client: Client, file: Path) -> str:
    try:
        data = json.loads(before or "{}")
    except ValueError as error:
        raise UsageError(
            f"{file} is not plain JSON: {error}",
            "Run without --write and insert the printed entry by hand.",
        ) from None
    servers = data.setdefault(client.key, {}) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(
            f"{file} has no object {client.key!r}",
            "Run without --write and insert the printed entry by hand.",
        )
    if servers.get("kevolve") == server(client):
        return before
    servers["kevolve"] = server(client)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _in_toml(before: str, client: Client, file: Path) -> str:
    """The file with the table at its end; comments and order of the rest stay."""
    try:
        there = tomllib.loads(before).get(client.key, {}).get("kevolve")
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}", "Fix it, or insert the printed entry by hand."
        ) from None
    if there == server(client):
        return before
    if there is not None:
        raise UsageError(
            f"{file} has another entry [{client.key}.kevolve]", "Remove it, then run again."
        )
    return f"{before.rstrip()}\n\n{entry(client)}\n".lstrip()


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}",
            "Run without --write and insert the printed entry by hand.",
        ) from None


def _replace(file: Path, text: str) -> None:
    """Replace the file as a whole or not at all: it is the user's."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(0o600)
        draft.write_text(text, encoding="utf-8")
        if file.exists():
            shutil.copymode(file, draft)
        draft.replace(file.resolve())
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(
            f"{file} cannot be written: {error.strerror}",
            "Run without --write and insert the printed entry by hand.",
        ) from None
