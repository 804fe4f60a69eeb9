"""Skills as callers see them: as a line, or in full with counts and history."""

from __future__ import annotations

from datetime import UTC, datetime

from kevolve_mcp import api
from kevolve_mcp.errors import NotFound
from kevolve_mcp.store import SkillOutcome, SkillState, Store
from knowledge import Library, Skill

from . import folders, learned
from .sameness import KnownTasks
from .standing import standing, success, trials


def brief(store: Store, name: str) -> api.Skill:
    """Raises NotFound."""
    return api.skill(store.skills.get(name), store.skills.evidence(name))


def listed(
    store: Store, library: Library, state: SkillState | None = None
) -> tuple[api.SkillCounts, ...]:
    """Return the skills of the store, the oldest first, then, without a state, those that come with
    the program (state "shipped", or "unproven" where no measurement shows a gain)."""
    tasks = KnownTasks(store)
    retrievals, outcomes, uses = store.skill_uses.retrievals(), _outcomes(store), _uses(store)

    def counted(page: str, name: str, title: str, state: str, evidence: int) -> api.SkillCounts:
        own = outcomes.get(page, [])
        return api.SkillCounts(
            name,
            title,
            state,
            evidence,
            retrievals[page],
            uses.get(page, 0),
            len(own),
            sum(map(success, own)),
            standing(trials(own, tasks.another)),
        )

    own = [
        counted(learned.page_id(s.id), s.id, s.title, s.state, len(store.skills.evidence(s.id)))
        for s in store.skills.list(state)
    ]
    others = [] if state else [s for s in library.skills() if not learned.is_learned(s.id)]
    return (
        *own,
        *(counted(s.id, s.id, s.page.title, _state_of(s), _recorded(s)) for s in others),
    )


def detail(store: Store, library: Library, name: str) -> api.SkillDetail:
    """Return one skill in full. Raises NotFound."""
    counts = {c.id: c for c in listed(store, library)}
    name = learned.name_of(name)
    if name not in counts:
        name = name if name.startswith("skills/") else f"skills/{name}"
    if name not in counts:
        raise NotFound(f"there is no skill {name!r}", f"Known: {', '.join(counts) or 'none'}.")
    if skill := shipped(library, name):
        return api.SkillDetail(counts[name], folders.shipped_body(skill), ())
    history = tuple(
        (
            f"{datetime.fromtimestamp(e.created, UTC).isoformat(timespec='seconds')} "
            f"{e.kind}{f' by {e.author}' if e.author else ''}: {e.message}"
        )
        for e in store.skills.events(name)
    )
    record = store.skills.get(name)
    return api.SkillDetail(
        counts[name],
        learned.body(record, store.skills.evidence(name)),
        history,
        _pattern(record.matches),
    )


def shipped(library: Library, name: str) -> Skill | None:
    """Return the skill that comes with the program under this name, with or without "skills/"."""
    wanted = f"skills/{name.removeprefix('skills/')}"
    skills = (s for s in library.skills() if s.id == wanted and not learned.is_learned(s.id))
    return next(skills, None)


def _state_of(skill: Skill) -> str:
    return "shipped" if _recorded(skill) else "unproven"


def _pattern(matches: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {', '.join(words)}" for name, words in matches.items())


def _recorded(skill: Skill) -> int:
    return sum(text.startswith("measured:") for text in skill.evidence)


def _outcomes(store: Store) -> dict[str, list[SkillOutcome]]:
    by_skill: dict[str, list[SkillOutcome]] = {}
    for outcome in store.skill_uses.outcomes():
        by_skill.setdefault(outcome.skill, []).append(outcome)
    return by_skill


def _uses(store: Store) -> dict[str, int]:
    counts: dict[str, int] = {}
    for use in store.skill_uses.uses():
        counts[use.skill] = counts.get(use.skill, 0) + 1
    return counts
