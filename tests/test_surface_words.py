"""Below the surfaces nothing knows how a caller calls: no text there names a tool, an argument of
one, a command or an option. They say what may be done next as an Action."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

from kevolve_mcp.cli.main import app
from kevolve_mcp.server.tools import TOOLS

ROOT = Path(__file__).parents[1]
SURFACES = {"cli", "server"}
# arguments that are also fields of what is shown
FIELDS = {"predicted_speedup"}
# options of compilers and of other programs that ours have, too
OTHERS = {"--help", "--version"}


def sources() -> list[Path]:
    found = [
        path
        for path in (ROOT / "kevolve_mcp").rglob("*.py")
        if path.relative_to(ROOT / "kevolve_mcp").parts[0] not in SURFACES
    ]
    found += (ROOT / "harness").rglob("*.py")
    return found + [p for p in (ROOT / "knowledge").rglob("*.py") if "skills" not in p.parts]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The literals that are prose: with a blank, and no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and " " in value.strip() and id(node) not in alone:
            yield node.lineno, value


def commands() -> tuple[set[str], set[str]]:
    """The names of commands, and their options of several letters."""
    names, options = set[str](), set[str]()

    def walk(command: object) -> None:
        for inner_name, inner in getattr(command, "commands", {}).items():
            names.add(inner_name)
            walk(inner)
        for parameter in getattr(command, "params", ()):
            options.update(o for o in parameter.opts if o.startswith("--"))

    walk(typer.main.get_command(app))
    return names, options - OTHERS


def words_of_the_surfaces() -> re.Pattern[str]:
    tools = [function.__name__ for _, function, _ in TOOLS]
    arguments = {
        name
        for _, function, _ in TOOLS
        for name in inspect.signature(function).parameters
        if "_" in name
    } - FIELDS
    names, options = commands()
    return re.compile(
        rf"\b(?:{'|'.join(sorted({*tools, *arguments}))})\b"
        rf"|(?<![\w-])(?:{'|'.join(sorted(options))})(?![\w-])"
        rf"|\bkevolve (?:{'|'.join(sorted(names))})\b"
        r"|\b\w+=(?:true|false)\b"
    )


def test_no_text_below_the_surfaces_names_a_call() -> None:
    pattern = words_of_the_surfaces()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()}"
        for path in sources()
        for line, text in texts(path)
        for match in pattern.finditer(text)
    ]
    assert found == []


def test_the_pattern_knows_the_surfaces() -> None:
    pattern = words_of_the_surfaces()
    for text in (
        "call session_next again",
        "give session_id, too",
        "name it with --author",
        "run kevolve tree s-1",
        "session_open(..., new=true)",
    ):
        assert pattern.search(text), text
