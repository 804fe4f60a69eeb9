"""Tables in docs/ that repeat what code knows are compared with it.
`UPDATE_DOCS=1 pytest tests/docs` rewrites what it can."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from harness import settings
from harness.types import ISOLATION_LEVELS, KIND_OF, STAGES, VOCABULARY, CaseResult, Status
from harness.types import Verdict as VerdictName
from kevolve_mcp.cli.verdicts import Verdict
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors.vendors import PROMPT, VENDORS

ROOT = Path(__file__).parents[2]
EVALUATION = ROOT / "docs" / "evaluation.md"


def signal_table() -> str:
    rows = [f"| `{name}` | {KIND_OF[name]} | {said} |" for name, said in VOCABULARY.items()]
    return "\n".join(["| signal | kind | meaning |", "| --- | --- | --- |", *rows])


def test_the_table_of_signals_is_the_vocabulary() -> None:
    text = EVALUATION.read_text()
    pattern = re.compile(r"(<!-- signals -->\n).*?(\n<!-- /signals -->)", re.DOTALL)
    current = pattern.sub(lambda m: m[1] + signal_table() + m[2], text)
    if os.environ.get("UPDATE_DOCS"):
        EVALUATION.write_text(current)
        text = current
    assert "<!-- signals -->" in text
    assert text == current, "the vocabulary changed; run UPDATE_DOCS=1 pytest tests/docs"


def first_cells(page: Path, heading: str) -> list[str]:
    section = page.read_text().split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)


def test_every_status_verdict_stage_and_level_is_explained() -> None:
    assert first_cells(EVALUATION, "## Statuses") == list(get_args(Status))
    assert first_cells(EVALUATION, "## Verdicts") == list(get_args(VerdictName))
    assert first_cells(EVALUATION, "## Stages") == list(STAGES)
    assert first_cells(EVALUATION, "## Isolation levels") == list(ISOLATION_LEVELS)


def test_every_field_of_the_json_is_explained() -> None:
    explained = first_cells(EVALUATION, "## The JSON of `kevolve evaluate`")
    assert explained == [
        *Verdict("kernel.py", "unreadable", "").as_json(),
        *(f.name for f in fields(CaseResult)),
    ]


def test_the_commands_of_vendors_are_those_of_the_table() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(.+)` \|$",
        (ROOT / "docs" / "authors.md").read_text().split("<!-- vendors -->")[1],
        re.MULTILINE,
    )
    assert dict(rows) == {name: command.replace(PROMPT, "…") for name, command in VENDORS.items()}


def test_every_setting_is_in_the_readme() -> None:
    names = {f"KEVOLVE_{name.upper()}" for name in Settings.model_fields}
    assert set(first_cells(ROOT / "README.md", "## Configuration")) == names


def test_every_setting_of_the_evaluator_is_in_its_page() -> None:
    names = {
        value for name, value in vars(settings).items() if name.isupper() and name != "OPENING"
    }
    rows = first_cells(ROOT / "docs" / "evaluation.md", "## Settings of the evaluator")
    assert set(rows) == names
