"""Skills with their evidence, and how often they were shown and used."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path

from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.search.provenance import AuthorId

from ..examples import (
    EXPAND,
    new_node,
    opened,
    refused,
)
from ..records import NewSkill, SkillEvidence, SkillOutcome, SkillUse
from .suite import Suite


class SkillHistory(Suite):
    def test_skills_keep_their_history(self, tmp_path: Path) -> None:
        evidence = SkillEvidence(
            "rmsnorm-7f3a",
            "n3",
            "n1",
            "0" * 64,
            "cpu:test",
            1.4,
            (1.3, 1.5),
            "e3",
            "e1",
            "clean run",
            1.6,
        )
        bare = SkillEvidence("rmsnorm-7f3b", "n3", None, "0" * 64, "cpu:test", 1.1)
        abroad = dataclasses.replace(bare, origin="imported")
        new = NewSkill(
            title=f"Row blocks, kept in cache! {secrets.token_hex(3)}",
            mechanism="m",
            counter_indications="short rows",
            code="for (;;) {}",
            matches={"operators": ["aten.mean"]},
            signals=("memory_bound",),
            files={"kernel.py": "# é"},
            target="cpu",
        )
        with self.store(tmp_path) as store:
            skill, fresh = store.skills.propose(new, [evidence], author="me")
            assert fresh
            # nothing new, so no event
            assert store.skills.propose(new, [evidence, evidence]) == (skill, False)
            assert store.skills.propose(
                dataclasses.replace(new, title="Another"), [bare], same=lambda s: s.id == skill.id
            ) == (
                skill,
                False,
            )
            twin, fresh = store.skills.propose(dataclasses.replace(new, target="cuda"), [bare])
            assert fresh
            assert twin.id.startswith(skill.id + "_")
            assert store.skills.add_evidence(skill.id, [bare, abroad]) == 1
            before = store.skills.revision()
            accepted = store.skills.decide(
                skill.id, "accepted", "measured twice", author="gate", data={"n": 2}
            )
            assert store.skills.revision() != before
            assert accepted == dataclasses.replace(skill, state="accepted")
            assert store.skills.decide(skill.id, "accepted", "told again") == accepted
            assert store.skills.decide(skill.id, "retired", "late", expected="proposed") == accepted
            assert store.skills.get(skill.id) == accepted
            assert accepted in store.skills.list("accepted")
            assert store.skills.evidence(skill.id) == (evidence, bare, abroad)
            assert [(e.seq, e.kind, e.message) for e in store.skills.events(skill.id)] == [
                (1, "proposed", new.title),
                (2, "evidence", "1 measured use(s) of the same pattern: Another"),
                (3, "accepted", "measured twice"),
            ]
            store.skills.decide(skill.id, "contradicted", "it failed")
            assert (
                "retired"
                in refused(
                    Conflict, lambda: store.skills.decide(skill.id, "proposed", "again")
                ).hint
            )
            refused(NotFound, lambda: store.skills.get("nothing"))

    def test_skills_are_counted_where_they_are_shown_and_used(self, tmp_path: Path) -> None:
        name = f"skills/rows_{secrets.token_hex(3)}"
        with self.store(tmp_path) as store:
            session = opened(store).id
            ask = store.asks.add(
                session, EXPAND, "text", author=AuthorId("me"), lease_s=60, skills=(name, name)
            )
            assert store.skill_uses.shown(session, ask.seq) == (name,)
            new = dataclasses.replace(
                new_node(store, "kernel", ask=ask.seq), skills={name: "shown"}
            )
            node = store.nodes.add(session, new)
            assert store.nodes.add(session, new) == node
            assert store.skill_uses.retrievals()[name] == 1
            assert store.skill_uses.uses(session) == (SkillUse(name, session, node.id, "shown"),)
            outcome = SkillOutcome(name, session, node.id, "correct", 1.2, (1.1, 1.3))
            store.skill_uses.add_outcomes([outcome])
            store.skill_uses.add_outcomes(
                [dataclasses.replace(outcome, status="incorrect", effect=None, interval=None)]
            )
            (kept,) = store.skill_uses.outcomes(name)
            assert dataclasses.replace(kept, created=0.0, task="") == outcome
            assert kept.task == store.sessions.get(session).task
