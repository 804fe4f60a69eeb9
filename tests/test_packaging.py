"""What a user installs: the wheel's contents, the pins, the registry entry, and the install buttons
of the README."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tomllib
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
STANDARD = {"command": "uvx", "args": ["kevolve-mcp"]}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return data


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from this tree."""
    (built,) = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"]
    )
    return set(zipfile.ZipFile(built).namelist())


def source_files(top: str) -> set[str]:
    found = {p for p in (ROOT / top).rglob("*") if p.is_file() and p.suffix not in {".pyc", ".so"}}
    return {
        str(p.relative_to(ROOT))
        for p in found
        if not any(part.startswith(".") for part in p.relative_to(ROOT).parts)
    }


def test_the_wheel_holds_code_knowledge_templates_and_migrations(wheel: set[str]) -> None:
    missing = {
        name for top in ("kevolve_mcp", "harness", "knowledge") for name in source_files(top)
    } - wheel
    assert not missing
    for folder, suffix in (
        ("knowledge/guidance/", ".md"),
        ("knowledge/skills/", ".md"),
        ("kevolve_mcp/export/templates/", ".txt"),
    ):
        assert any(name.startswith(folder) and name.endswith(suffix) for name in wheel), folder
    assert any("migrations" in name for name in wheel)


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel if ".dist-info" not in name}
    assert tops == {"kevolve_mcp", "harness", "knowledge"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)


def pins() -> dict[str, str]:
    lines = [
        line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()
    ]
    return {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines if line)
    }


def test_every_requirement_is_pinned_inside_its_range(project: dict[str, Any]) -> None:
    extras = [r for group in project["optional-dependencies"].values() for r in group]
    exact = pins()
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(exact[canonicalize_name(requirement.name)]), (
                requirement
            )


def test_versions_agree(project: dict[str, Any]) -> None:
    from kevolve_mcp import __version__

    server = json.loads((ROOT / "server.json").read_text())
    assert (
        project["version"] == __version__ == server["version"] == server["packages"][0]["version"]
    )


def test_the_registry_entry_names_this_package(project: dict[str, Any]) -> None:
    server = json.loads((ROOT / "server.json").read_text())
    (package,) = server["packages"]
    assert (package["registryType"], package["identifier"], package["transport"]) == (
        "pypi",
        project["name"],
        {"type": "stdio"},
    )
    assert f"mcp-name: {server['name']}" in (ROOT / "README.md").read_text()
    assert len(server["description"]) <= 100


def test_the_install_buttons_decode_to_the_standard_configuration() -> None:
    readme = (ROOT / "README.md").read_text()
    (cursor,) = re.findall(r"cursor\.com/en/install-mcp\?name=kevolve&config=([\w%=+/]+)", readme)
    assert json.loads(base64.b64decode(urllib.parse.unquote(cursor))) == STANDARD
    codes = re.findall(r"vscode\.dev/redirect/mcp/install\?name=kevolve&config=([^)&]+)", readme)
    assert codes
    assert all(json.loads(urllib.parse.unquote(code)) == STANDARD for code in codes)
