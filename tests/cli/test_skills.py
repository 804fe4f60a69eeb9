"""`kevolve skills`: what searches have learned, decided on by a person, and carried from one home
to another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kevolve_mcp.store import NewSkill, SkillEvidence, Store
from knowledge import Library

from .conftest import Kevolve

NEW = NewSkill(
    title="Fuse the passes over a row",
    mechanism="One pass reads each row once.",
    preconditions="Rows that fit into the first-level cache.",
    counter_indications="Rows that do not.",
    code="-two()\n+one()",
    matches={"families": ["normalization"], "dtypes": ["float32"]},
    target="cpu",
    language="cpp",
    signals=("memory_bound",),
    files={"kernel.py": "class ModelNew: pass\n"},
)
MEASURED = SkillEvidence(
    "rows-7f3a", "n2", "n1", "0" * 64, "cpu:fake", 1.5, (1.4, 1.6), "e2", "e1", predicted=1.3
)
NAME = "fuse_the_passes_over_a_row"


LIBRARY = Library.builtin()


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a hundred pages for each command takes longer than these tests."""
    monkeypatch.setattr(Library, "builtin", lambda **_: LIBRARY)


@pytest.fixture
def skill(home: Path) -> str:
    with Store.open(home) as store:
        return store.skills.propose(NEW, [MEASURED], author="me")[0].id


def test_a_person_reviews_and_decides(
    kevolve: Kevolve, skill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = kevolve("skills", "list").stdout
    assert f"{skill}  [proposed]" in listed
    assert "skills/row_normalization  [shipped]" in listed
    waiting = kevolve("skills", "review").stdout
    assert f"kevolve skills accept {skill}" in waiting
    assert "1.50 times [1.40, 1.60], predicted 1.30 times" in waiting
    done = kevolve(
        "skills", "accept", skill, "--by", "R. Viewer", "--note", "seen on two machines", "--json"
    )
    assert json.loads(done.stdout)["skill"]["state"] == "accepted"
    assert "No skill waits" in kevolve("skills", "review").stdout
    shown = kevolve("skills", "show", skill).stdout
    assert "accepted by R. Viewer: seen on two machines" in shown
    assert "Rows that do not." in shown
    assert skill in kevolve("knowledge", "search", "fuse passes over a row").stdout
    assert [
        s["id"]
        for s in json.loads(kevolve("skills", "list", "--state", "accepted", "--json").stdout)[
            "skills"
        ]
    ] == [skill]
    assert "is retired" in kevolve("skills", "retire", skill).stdout
    assert skill not in kevolve("knowledge", "search", "fuse passes over a row").stdout
    assert kevolve("skills", "list", "--state", "good").exit_code == 2
    assert kevolve("skills", "show", "nothing").exit_code == 2
    monkeypatch.setenv("KEVOLVE_SERVER", "http://127.0.0.1:1")
    elsewhere = kevolve("skills", "accept", skill)
    assert (elsewhere.exit_code, "KEVOLVE_SERVER" in elsewhere.stderr) == (2, True)


def test_a_skill_travels_as_a_folder(
    kevolve: Kevolve, skill: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kevolve("skills", "export", skill, tmp_path / "team").exit_code == 0
    folder = tmp_path / "team" / "fuse-the-passes-over-a-row"
    head = yaml.safe_load((folder / "SKILL.md").read_text().split("---\n")[1])
    assert head["name"] == folder.name
    assert 0 < len(head["description"]) <= 1024
    assert all(isinstance(value, str) for value in head["metadata"].values())
    # it lies there already
    assert kevolve("skills", "export", skill, tmp_path / "team").exit_code == 1
    monkeypatch.setenv("KEVOLVE_HOME", str(tmp_path / "other"))
    for word in ("is proposed", "is already known (proposed); it now has 1"):
        assert word in kevolve("skills", "import", folder, "--by", "you").stdout
    with Store.open(tmp_path / "other") as store:
        there = store.skills.get(NAME)
        (evidence,) = store.skills.evidence(NAME)
        (event,) = store.skills.events(NAME)
    for field in (
        "title",
        "mechanism",
        "preconditions",
        "counter_indications",
        "code",
        "matches",
        "signals",
        "files",
    ):
        assert getattr(there, field) == getattr(NEW, field), field
    assert (there.state, event.kind, event.author) == ("proposed", "imported", "you")
    assert evidence.origin.startswith("elsewhere, imported ")
    assert (evidence.effect, evidence.predicted, evidence.device) == (1.5, 1.3, "cpu:fake")


def test_a_folder_that_cannot_be_read_is_refused(kevolve: Kevolve, tmp_path: Path) -> None:
    refused = kevolve("skills", "import", tmp_path / "nowhere")
    assert (refused.exit_code, "is not a folder" in refused.stderr) == (2, True)
