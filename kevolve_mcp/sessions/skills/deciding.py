"""What becomes of skills: outcomes are noted when a session ends, rules accept and contradict, a
person accepts and retires."""

from __future__ import annotations

from typing import Literal

from kevolve_mcp.search import Node, Tree
from kevolve_mcp.store import SkillOutcome, SkillRecord, Store

from . import evidence, learned, standing
from .sameness import KnownTasks

Acceptance = Literal["auto", "review"]


def note_outcomes(store: Store, tree: Tree, session: str) -> None:
    """For each skill that the session used, its best use: where a kernel came from the skill or its
    author names it. A page that merely stood in an ask answers for nothing. Told again, it changes
    nothing."""
    best: dict[str, SkillOutcome] = {}
    for use in store.skill_uses.uses(session):
        if use.how == "shown" or use.node not in tree.by_id:
            continue
        node = tree.by_id[use.node]
        parent = evidence.parent_of(tree, node)
        parent = parent if parent is not None and parent.score > 0 else None
        for kin in _kin(tree, node):
            effect, between = evidence.effect_of(kin, parent)
            outcome = SkillOutcome(
                use.skill, session, kin.id, kin.status, effect or None, between if effect else None
            )
            if use.skill not in best or standing.worth(outcome) > standing.worth(best[use.skill]):
                best[use.skill] = outcome
    if best:
        store.skill_uses.add_outcomes(list(best.values()))


def settle(store: Store, acceptance: Acceptance) -> None:
    """Apply the rules to every skill that is proposed or accepted. A person's decision in the same
    moment stands."""
    tasks = KnownTasks(store)
    for skill in store.skills.list("proposed") if acceptance == "auto" else ():
        if why := standing.accepted_because(store.skills.evidence(skill.id), tasks.another):
            store.skills.decide(
                skill.id, "accepted", f"{why}.", author="kevolve", expected="proposed"
            )
    for skill in store.skills.list("accepted"):
        if why := standing.contradicted_because(_trials(store, skill, tasks)):
            store.skills.decide(
                skill.id, "contradicted", f"{why}.", author="kevolve", expected="accepted"
            )


def _trials(store: Store, skill: SkillRecord, tasks: KnownTasks) -> tuple[SkillOutcome, ...]:
    """Those since it was last accepted: who accepts a contradicted skill again gives it a
    new chance."""
    since = max(
        (e.created for e in store.skills.events(skill.id) if e.kind == "accepted"), default=0.0
    )
    outcomes = store.skill_uses.outcomes(learned.page_id(skill.id))
    return standing.trials([o for o in outcomes if o.created >= since], tasks.another)


def _kin(tree: Tree, node: Node) -> list[Node]:
    """The node and those that differ from it in parameters alone: a skill is judged by what its
    kernel reaches once it is tuned."""
    return [
        node,
        *(
            n
            for n in tree.nodes
            if node.structure and n.structure == node.structure and n.seq > node.seq
        ),
    ]
