"""Tables in docs/ that repeat what code knows are compared with it.
`UPDATE_DOCS=1 pytest tests/docs` rewrites what it can."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import jsonschema
from pydantic import TypeAdapter

from harness import settings
from harness.types import ISOLATION_LEVELS, KIND_OF, STAGES, VOCABULARY, CaseResult, Status, to_json
from harness.types import Verdict as VerdictName
from kevolve_mcp import api
from kevolve_mcp.cli.verdicts import Verdict
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors.registry import PROMPT, VENDORS
from tests.export import samples

ROOT = Path(__file__).parents[2]
EVALUATION = ROOT / "docs" / "evaluation.md"
SCHEMA = ROOT / "docs" / "reference" / "evaluation.schema.json"


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
    whole, cases = explanations()
    own = [f.name for f in fields(api.Evaluation)]
    added = ["file", "hint", "head_to_head", "not_compared"]
    assert list(whole) == [*own, *added]
    assert list(cases) == [f.name for f in fields(CaseResult)]
    assert set(Verdict("kernel.py", "unreadable", "").as_json()) == {*own, *added}


def explanations() -> tuple[dict[str, str], dict[str, str]]:
    """What the page says of each field: of an evaluation and of a case."""
    section = EVALUATION.read_text().split("\n## The JSON of an evaluation\n", 1)[1]
    whole, cases = section.split("\n## ", 1)[0].split("\nPer case:\n")
    row = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
    return dict(row.findall(whole)), dict(row.findall(cases))


def plain(value: Any, named: bool = False) -> Any:
    """A generated schema without titles and defaults, which repeat names and say that a field may
    be absent, and without the docstrings of classes."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: plain(item, key in ("properties", "$defs"))
        for key, item in value.items()
        if named or key not in ("title", "default", "description")
    }


def evaluation_schema() -> dict[str, Any]:
    schema = plain(TypeAdapter(api.Evaluation).json_schema(mode="serialization"))
    objects = (schema, schema["$defs"]["CaseResult"])
    for described, told in zip(objects, explanations(), strict=True):
        for name, field in described["properties"].items():
            field["description"] = told[name]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": "Evaluation", **schema}


def test_the_schema_of_an_evaluation_is_that_of_the_code() -> None:
    text = json.dumps(evaluation_schema(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_DOCS"):
        SCHEMA.parent.mkdir(exist_ok=True)
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text, "run UPDATE_DOCS=1 pytest tests/docs"


def test_what_is_printed_and_kept_fits_the_schema() -> None:
    found = samples.scale_norm().evaluation
    kept, told = to_json(api.evaluation(found, record=True)), to_json(api.evaluation(found, "e1"))
    for shown in (kept, told, Verdict.of("kernel.py", found).as_json()):
        jsonschema.validate(shown, json.loads(SCHEMA.read_text()))


def test_the_outline_in_the_list_of_tools_agrees_with_the_schema() -> None:
    schema = evaluation_schema()
    outlined = api.outline(api.Evaluation, ("cases", "signals"))["properties"]
    assert set(outlined) == set(schema["properties"])
    for name, kind in (("cases", "CaseResult"), ("signals", "Signal")):
        fields_of = outlined[name]["items"]["properties"]
        assert set(fields_of) == set(schema["$defs"][kind]["properties"])


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
