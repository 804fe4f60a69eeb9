"""Whether a home was taught anything, without opening its store."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.store import NewSkill, SkillOutcome, Store, taught_something
from kevolve_mcp.store.examples import new_node, opened

NEW = NewSkill(
    title="Fuse the passes",
    mechanism="One pass reads each row once.",
    preconditions="",
    counter_indications="",
    code="",
    matches={},
    target="cpu",
    language="cpp",
    signals=(),
    files={},
)


def test_looking_makes_no_home(tmp_path: Path) -> None:
    assert not taught_something(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_only_what_was_accepted_teaches(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert not taught_something(tmp_path)
        skill = store.skills.propose(NEW, [], author="me")[0].id
        assert not taught_something(tmp_path)
        store.skills.decide(skill, "accepted", "seen")
        assert taught_something(tmp_path)
        store.skills.decide(skill, "retired", "seen again")
        assert not taught_something(tmp_path)


def test_what_came_of_a_shipped_skill_teaches(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store).id
        node = store.nodes.add(session, new_node(store)).id
        assert not taught_something(tmp_path)
        outcome = SkillOutcome("skills/x", session, node, "correct", 0.9, (0.8, 1.0))
        store.skill_uses.add_outcomes([outcome])
    assert taught_something(tmp_path)


def test_what_cannot_be_looked_at_is_left_to_the_store(tmp_path: Path) -> None:
    assert taught_something(tmp_path, "postgresql://somewhere/else")
    (tmp_path / "kevolve.db").write_bytes(b"no database, but long enough to be looked at" * 20)
    assert taught_something(tmp_path)
