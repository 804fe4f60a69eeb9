"""The shape of the house. `lint-imports` checks the floors themselves (`make lint`); here stands
what it cannot see."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib
from grimp import ImportGraph
from importlinter import ContractCheck

from tests.import_contracts import AllowedExternals

ROOT = Path(__file__).parents[1]
HOUSE = ("kevolve_mcp", "harness", "knowledge")
HARD_CEILING = 700
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    ".json",
    ".cpp",
    ".h",
    ".sh",
    ".cfg",
    ".mako",
    "",
}
# The checkout, a person's home and the root account's folders; "me" and "you" are the readers of
# the documentation.
MACHINE_PATH = re.compile(
    r"/(?:work/(?:main|shared)|root/\w|Users/\w|home/(?!me\b|you\b)\w)|file:///\w"
)


def files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if (
            path.is_file()
            and not hidden
            and "__pycache__" not in parts
            and parts[0] not in {"build", "dist", "exports"}
        ):
            yield path


def packages() -> list[str]:
    found = [p.parent.relative_to(ROOT) for top in HOUSE for p in (ROOT / top).rglob("__init__.py")]
    return sorted(".".join(p.parts) for p in found if "skills" not in p.parts)


def lint_settings() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]
    return settings


def test_every_package_stands_on_a_floor() -> None:
    (floors,) = [c for c in lint_settings()["contracts"] if c["id"] == "floors"]
    placed = set(re.findall(r"[\w.]+", " ".join(floors["layers"])))
    built = {
        f"kevolve_mcp.{p.parent.name}" for p in (ROOT / "kevolve_mcp").glob("*/__init__.py")
    } | {"harness", "knowledge"}
    assert built <= placed, (
        "name the new package in the layers of [tool.importlinter] in pyproject.toml"
    )


def check_contract(*, importer: str, imported: str) -> ContractCheck:
    graph = ImportGraph()
    for module in ("search", "search.tree", "harness.types", "numpy", "json"):
        graph.add_module(module, is_squashed=module in {"numpy", "json"})
    graph.add_import(
        importer=importer, imported=imported, line_number=3, line_contents=f"import {imported}"
    )
    options = {"name": "pure", "source_modules": ["search"], "allowed": ["harness.types"]}
    return AllowedExternals("pure", lint_settings(), options).check(graph, verbose=False)


@pytest.mark.parametrize("imported", ["json", "harness.types", "search"])
def test_the_purity_contract_permits(imported: str) -> None:
    assert check_contract(importer="search.tree", imported=imported).kept


def test_the_purity_contract_names_the_line_of_a_breach() -> None:
    result = check_contract(importer="search.tree", imported="numpy")
    assert not result.kept
    (breach,) = result.metadata["found"]
    assert (breach["importer"], breach["imported"], breach["line_number"]) == (
        "search.tree",
        "numpy",
        3,
    )


def test_no_module_is_too_long() -> None:
    lengths = {
        str(p.relative_to(ROOT)): len(p.read_text().splitlines())
        for top in HOUSE
        for p in (ROOT / top).rglob("*.py")
    }
    assert not {name: lines for name, lines in lengths.items() if lines > HARD_CEILING}, (
        "split them: one idea, one file"
    )


def test_nothing_is_left_for_later() -> None:
    unfinished = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")
    sources = [p for top in HOUSE for p in (ROOT / top).rglob("*.py")]
    assert not [str(p.relative_to(ROOT)) for p in sources if unfinished.search(p.read_text())]


def test_nothing_names_a_path_of_one_machine() -> None:
    found = []
    for path in files():
        if path.suffix in TEXT and path != Path(__file__):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if MACHINE_PATH.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found


@pytest.mark.parametrize("package", packages())
def test_the_face_of_a_package_is_what_it_exports(package: str) -> None:
    source = (ROOT / Path(*package.split(".")) / "__init__.py").read_text()
    tree = ast.parse(source)
    assert ast.get_docstring(tree), f"{package} says in a paragraph what it is for"
    module = importlib.import_module(package)
    declared = list(getattr(module, "__all__", []))
    assert len(declared) == len(set(declared))
    missing = [name for name in declared if not hasattr(module, name)]
    assert not missing, f"{package}.__all__ names what is not there"
    reexports = any(isinstance(s, ast.ImportFrom) and s.level for s in tree.body)
    assert declared or not reexports, f"{package} curates its face in __all__"
