"""docs/cli.md and docs/tools.md against the commands and tools that exist. `UPDATE_DOCS=1` renews
the option tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kevolve_mcp.cli import app
from kevolve_mcp.settings import Settings

ROOT = Path(__file__).parents[2]
CLI = ROOT / "docs" / "cli.md"
TOOLS = ROOT / "docs" / "tools.md"
ALIKE = {"kernel_check": "kernel_compile"}  # documented as taking the same arguments


def commands(group: Any, path: str = "kevolve") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def all_commands() -> dict[str, Any]:
    return dict(commands(typer.main.get_command(app)))


def option_table(command: Any) -> str:
    rows = ["| argument or option | meaning |", "| --- | --- |"]
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            name = f"`{(parameter.metavar or parameter.name.upper())}`"
        else:
            name = ", ".join(
                f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts]
            )
        rows.append(f"| {name} | {(parameter.help or '').replace('|', ' or ')} |")
    return "\n".join(rows) if len(rows) > 2 else "It takes no arguments."


def test_no_help_has_brackets() -> None:
    """What stands in them is read as markup, and left out where the help is shown."""
    for name, command in all_commands().items():
        for parameter in command.params:
            assert "[" not in (getattr(parameter, "help", None) or ""), (name, parameter.name)


def test_the_option_tables_are_those_of_the_commands() -> None:
    text = CLI.read_text()
    current = text
    for name, command in all_commands().items():
        pattern = re.compile(
            rf"(<!-- options: {re.escape(name)} -->\n\n).*?(\n\n<!-- /options -->)", re.DOTALL
        )
        assert pattern.search(current), f"docs/cli.md has no place for the options of `{name}`"
        table = option_table(command)
        current = pattern.sub(lambda m, table=table: m[1] + table + m[2], current)  # type: ignore[misc]
    if os.environ.get("UPDATE_DOCS"):
        CLI.write_text(current)
        text = current
    assert text == current, "the commands changed; run UPDATE_DOCS=1 pytest tests/docs"


def test_no_page_names_a_command_that_does_not_exist() -> None:
    known = all_commands()
    for page in [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for words in re.findall(
            r"(?:^|`)((?:\.venv/bin/)?kevolve(?: [a-z]+)+)", page.read_text(), re.MULTILINE
        ):
            call = words.removeprefix(".venv/bin/")
            assert any(call == name or call.startswith(f"{name} ") for name in known), (
                f"{page.name}: {call}"
            )


def documented_arguments() -> dict[str, list[str]]:
    found = {}
    for section in TOOLS.read_text().split("\n## ")[1:]:
        name, _, body = section.partition("\n")
        found[name.strip()] = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
    return {name: found[ALIKE.get(name, name)] for name in found}


@pytest.mark.anyio
async def test_the_tools_are_documented_in_their_order_with_all_arguments(tmp_path: Path) -> None:
    from kevolve_mcp.server import build_server

    listed = await build_server(Settings(home=tmp_path)).list_tools()
    served = {tool.name: list(tool.input_schema.get("properties", {})) for tool in listed}
    documented = documented_arguments()
    assert list(documented) == list(served)
    for name, arguments in served.items():
        assert set(documented[name]) == set(arguments), name


def test_the_readme_lists_every_tool() -> None:
    section = (ROOT / "README.md").read_text().split("\n## Tools\n", 1)[1].split("\n## ", 1)[0]
    named = [
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert named == list(documented_arguments())
