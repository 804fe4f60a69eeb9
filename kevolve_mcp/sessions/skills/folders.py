"""Skills as folders for exchange: SKILL.md in the form of agentskills.io, the evidence as JSON,
kernels and templates under assets/.

one-pass/
    SKILL.md        front matter: name (the folder's), description, metadata; then Markdown under
                    fixed headings
    evidence.json   {"format": 1, "evidence": [...]}, absent where there is none
    assets/*.py     kernels and kernel templates
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.types import to_json
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.store import SkillEvidence, SkillRecord
from knowledge import Skill

from . import learned

FORMAT = 1
PAGE, EVIDENCE, ASSETS = "SKILL.md", "evidence.json", "assets"
HEADINGS = {
    "mechanism": "Mechanism",
    "preconditions": "When it applies",
    "counter_indications": "When it does not",
    "code": "Code",
}
METADATA = ("target", "language", "signals", "pattern")
MAX_NAME, MAX_DESCRIPTION = 64, 1024  # of the specification


def folder_name(title: str) -> str:
    """Return a name of lower case letters, digits and single hyphens, as the specification
    requires."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:MAX_NAME].strip("-") or "skill"


def write(record: SkillRecord, evidence: Sequence[SkillEvidence], parent: Path) -> Path:
    """Write the skill as a new folder below `parent` and return its path. Raises Conflict where the
    folder already exists."""
    name = folder_name(record.id)
    metadata = {
        "target": record.target,
        "language": record.language,
        "signals": " ".join(record.signals),
        "pattern": json.dumps(record.matches),
    }
    summary = f"{record.title}. {record.mechanism}"
    texts = {
        PAGE: _page(name, summary, metadata, learned.body(record, ())),
        **{f"{ASSETS}/{file}": text for file, text in record.files.items()},
    }
    if evidence:
        rows = [to_json(e) for e in evidence]
        texts[EVIDENCE] = (
            json.dumps({"format": FORMAT, "evidence": rows}, indent=2, ensure_ascii=False) + "\n"
        )
    return _written(parent / name, texts)


def write_shipped(skill: Skill, parent: Path) -> Path:
    """Write a skill that comes with the program, with its own headings and its evidence in the
    text."""
    page, name = skill.page, folder_name(skill.id.removeprefix("skills/"))
    metadata = {
        "target": " ".join(page.targets),
        "language": " ".join(page.languages),
        "signals": " ".join(page.signals),
        "pattern": json.dumps(skill.pattern),
    }
    text = _page(name, f"{page.title}. {page.summary}", metadata, shipped_body(skill))
    assets = {f"{ASSETS}/{file}": content for file, content in skill.files.items()}
    return _written(parent / name, {PAGE: text, **assets})


def shipped_body(skill: Skill) -> str:
    """Return the page of a skill that comes with the program, with its evidence."""
    lines = "\n".join(f"- {line}" for line in skill.evidence)
    return f"{skill.page.body.rstrip()}\n\n## Evidence\n\n{lines or '- none recorded'}\n"


def _written(folder: Path, texts: Mapping[str, str]) -> Path:
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise Conflict(
            f"{folder} already exists", "Name another folder, or remove that one first."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", "Name a folder that you can write to."
        ) from error
    return folder


def _page(name: str, summary: str, metadata: dict[str, str], body: str) -> str:
    summary = " ".join(summary.split())
    fields: dict[str, Any] = {
        "name": name,
        "description": summary
        if len(summary) <= MAX_DESCRIPTION
        else summary[: MAX_DESCRIPTION - 1] + "…",
        "metadata": metadata,
    }
    head = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{head}---\n{body}"
