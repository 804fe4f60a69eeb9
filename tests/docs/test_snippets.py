"""The documentation's code is code: Python parses (and runs where it says `run`), JSON and TOML
parse, links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomllib

from knowledge import parse_page

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Snippet:
    page: Path
    line: int
    info: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(language: str, *, flag: str | None = None) -> list[Snippet]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            info = tuple(match["info"].split())
            if info[:1] == (language,) and (flag is None or flag in info):
                found.append(
                    Snippet(page, text.count("\n", 0, match.start()) + 2, info, match["body"])
                )
    return found


def test_every_fence_is_closed_and_of_a_known_kind() -> None:
    known = {"", "python", "json", "toml", "bash", "text", "cpp", "markdown", "mermaid"}
    for page in PAGES:
        text = page.read_text()
        assert text.count("```") % 2 == 0, page
        kinds = {(match["info"].split() or [""])[0] for match in FENCE.finditer(text)}
        assert kinds <= known, f"{page}: name a known language: {sorted(known)}"


@pytest.mark.parametrize("snippet", snippets("python"), ids=str)
def test_python_parses(snippet: Snippet) -> None:
    tree = ast.parse(snippet.body, filename=str(snippet))
    names = {s.name for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))}
    if "Model" in names:
        assert "get_inputs" in names, "a task that a reader copies must be whole"


@pytest.mark.parametrize("snippet", snippets("python", flag="run"), ids=str)
def test_python_runs(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in an empty folder. A task is taken as far as one call of its reference in every case it
    names."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "snippet"}
    exec(compile(snippet.body, str(snippet), "exec"), space)
    if "get_inputs" in space:
        call_reference(space)


def call_reference(space: dict[str, object]) -> None:
    import inspect

    def accepted(function: object, arguments: dict[str, object]) -> dict[str, object]:
        return {k: v for k, v in arguments.items() if k in inspect.signature(function).parameters}  # type: ignore[arg-type]

    cases: dict[str, dict[str, object]] = space.get("CASES") or {"": {}}  # type: ignore[assignment]
    for arguments in cases.values():
        get_inputs, get_init_inputs = space["get_inputs"], space.get("get_init_inputs")
        inputs = get_inputs(**accepted(get_inputs, arguments))  # type: ignore[operator]
        reference = space.get("reference")
        if reference is None:
            reference = space["Model"](*get_init_inputs(**accepted(get_init_inputs, arguments)))  # type: ignore[operator]
        reference(*inputs)  # type: ignore[operator]


@pytest.mark.parametrize("snippet", snippets("json"), ids=str)
def test_json_parses(snippet: Snippet) -> None:
    json.loads(snippet.body)


@pytest.mark.parametrize("snippet", snippets("toml"), ids=str)
def test_toml_parses(snippet: Snippet) -> None:
    tomllib.loads(snippet.body)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_inside_the_tree_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", text)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    """`harness/native.py` anywhere; in a paragraph that opens with a folder in bold, `timing.py`
    means a file in it."""
    text = FENCE.sub("", page.read_text())
    tops = "harness|kevolve_mcp|knowledge|tests|docs|benchmarks"
    missing = [
        name for name in re.findall(rf"`((?:{tops})/[\w./-]*)`", text) if not (ROOT / name).exists()
    ]
    for paragraph in text.split("\n\n"):
        if opening := re.match(rf"\*\*`((?:{tops})/[\w/]*)`\*\*", paragraph):
            folder = ROOT / opening[1]
            named = re.findall(r"`(\w+(?:\.py|\.md|/))`", paragraph[opening.end() :])
            missing += [f"{opening[1]}{name}" for name in named if not (folder / name).exists()]
    assert not missing


def test_the_front_matter_that_is_shown_is_accepted() -> None:
    (shown,) = [s.body for s in snippets("markdown") if s.page.name == "knowledge.md"]
    page = parse_page("guidance/small_m_products", f"{shown}# Small-M products\n\nText.\n")
    assert page.families == ("matmul",)
    assert len(page.sources) == 2
