"""Accepted skills as pages of the library: found by retrieval, shown in asks, and sources of
starting kernels if they have a template."""

from __future__ import annotations

import ast
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from harness.types import Target
from kevolve_mcp.store import SkillEvidence, SkillOutcome, SkillRecord, Store
from kevolve_mcp.synthesis.machine import device
from kevolve_mcp.synthesis.shown import LEARNED
from knowledge import Library, Page, Skill

from .patterns import families
from .sameness import KnownTasks
from .standing import standing, trials

# prefix of page ids: a learned skill never takes the name of one that comes with the program
FOLDER = LEARNED
SUMMARY = 200  # characters


def is_learned(page_id: str) -> bool:
    """Return whether the page is a skill of the store."""
    return page_id.startswith(FOLDER)


def page_id(name: str) -> str:
    """Return the page id of a skill: "skills/learned/one_pass" for "one_pass"."""
    return FOLDER + name


def name_of(skill: str) -> str:
    """Return the name in a page id; a name without folder is returned unchanged."""
    return skill.removeprefix(FOLDER)


def as_skill(record: SkillRecord, evidence: Sequence[SkillEvidence], weight: float = 1.0) -> Skill:
    """Return a stored skill as a skill of the library. weight: the factor on its rank."""
    summary = " ".join(record.mechanism.split())
    page = Page(
        id=page_id(record.id),
        title=record.title,
        category="skill",
        summary=summary
        if len(summary) <= SUMMARY
        else summary[: SUMMARY - 1].rsplit(" ", 1)[0] + "…",
        body=body(record, evidence),
        signals=record.signals,
        targets=(Target.parse(record.target).family,),
        languages=(record.language,),
        families=tuple(sorted(families(record.matches))),
        preconditions=(record.preconditions,) if record.preconditions else (),
        sources=tuple(f"measured: {device(e.device)}: {_figure(e)}" for e in evidence),
        source=f"skill {record.id} of the store",
        standing=weight,
    )
    return Skill(
        page.id, page, dict(record.files), templates_of(record.files), dict(record.matches)
    )


def body(record: SkillRecord, evidence: Sequence[SkillEvidence]) -> str:
    """Return the text of the page: the description, then the evidence."""
    parts = [f"# {record.title}", "## Mechanism", record.mechanism]
    for heading, text in (
        ("When it applies", record.preconditions),
        ("When it does not", record.counter_indications),
    ):
        parts += [f"## {heading}", text] if text else []
    parts += ["## Code", f"```\n{record.code}\n```"] if record.code else []
    parts += ["## Evidence", "\n".join(f"- {_line(e)}" for e in evidence)] if evidence else []
    return "\n\n".join(parts) + "\n"


def templates_of(files: dict[str, str]) -> tuple[str, ...]:
    """Return the files that are kernel templates: they define ROLES, to which a task's tensors are
    bound."""
    return tuple(
        name for name, text in sorted(files.items()) if name.endswith(".py") and _has_roles(text)
    )


def _has_roles(text: str) -> bool:
    try:
        statements = ast.parse(text).body
    # an invalid kernel need not parse
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(s, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "ROLES" for t in s.targets)
        for s in statements
    )


def _line(e: SkillEvidence) -> str:
    where = f"{e.origin}, on {device(e.device)}" if e.origin else f"on {device(e.device)}"
    note = f": {e.note}" if e.note else ""
    return (
        f"{_figure(e)} ({where}; {e.session} {e.node} against {e.parent or 'the baseline'}, task "
        f"{e.task[:12]}){note}"
    )


def _figure(e: SkillEvidence) -> str:
    interval = f" [{e.interval[0]:.2f}, {e.interval[1]:.2f}]" if e.interval else ""
    foretold = f", predicted {e.predicted:.2f} times" if e.predicted else ""
    return f"{e.effect:.2f} times{interval}{foretold}"


class Learned:
    """The library with the accepted skills of a store, made anew when the store changes;
    thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[Library, tuple[int, int], Library] | None = None

    def library(self, base: Library, store: Store) -> Library:
        """Return the base library with the skills of the store."""
        with self._lock:
            revision = store.skills.revision()
            if self._made is None or self._made[0] is not base or self._made[1] != revision:
                self._made = (base, revision, extended(base, store))
            return self._made[2]


def extended(base: Library, store: Store) -> Library:
    """Return the base library with the accepted skills, all ranked by the outcomes of their
    uses."""
    outcomes: dict[str, list[SkillOutcome]] = defaultdict(list)
    for outcome in store.skill_uses.outcomes():
        outcomes[outcome.skill].append(outcome)
    accepted = store.skills.list("accepted")
    if not accepted and not outcomes:
        return base
    tasks = KnownTasks(store)
    weights = {name: standing(trials(found, tasks.another)) for name, found in outcomes.items()}
    shipped = [
        replace(s, page=replace(s.page, standing=weights.get(s.id, 1.0))) for s in base.skills()
    ]
    new = [
        as_skill(s, store.skills.evidence(s.id), weights.get(page_id(s.id), 1.0)) for s in accepted
    ]
    return base.with_skills([*shipped, *new])
