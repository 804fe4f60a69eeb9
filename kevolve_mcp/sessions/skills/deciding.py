"""Decisions on skills: outcomes are recorded when a session ends, rules accept and contradict, a
person accepts and retires."""

from __future__ import annotations

from typing import Literal

from kevolve_mcp.search import Node, Tree
from kevolve_mcp.store import SkillOutcome, SkillRecord, Store

from . import evidence, learned, standing
from .sameness import KnownTasks

Acceptance = Literal["auto", "review"]


def note_outcomes(store: Store, tree: Tree, session: str) -> None:
    """Record the best use of each skill that the session used: kernels made from the skill, or
    whose author names it. Merely showing a page in an ask does not count. Repeated, it changes
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
    """Apply the rules to every proposed or accepted skill. A person's decision at the same time
    takes precedence."""
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
    """The outcomes since it was last accepted: accepting a contradicted skill gives it a new
    chance."""
    since = max(
        (e.created for e in store.skills.events(skill.id) if e.kind == "accepted"), default=0.0
    )
    outcomes = store.skill_uses.outcomes(learned.page_id(skill.id))
    return standing.trials([o for o in outcomes if o.created >= since], tasks.another)


def _kin(tree: Tree, node: Node) -> list[Node]:
    """The node and those that differ only in parameters: a skill is judged by what its kernel
    reaches after tuning."""
    return [
        node,
        *(
            n
            for n in tree.nodes
            if node.structure and n.structure == node.structure and n.seq > node.seq
        ),
    ]
