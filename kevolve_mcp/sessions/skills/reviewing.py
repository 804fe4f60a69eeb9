"""What a person does with skills: look, accept, retire, send, receive."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound
from kevolve_mcp.store import SkillState

from ..skill_types import SkillCounts, SkillDetail, SkillView
from . import arriving, folders, learned, patterns, views

if TYPE_CHECKING:
    from ..shared import Shared

Verb = Literal["accepted", "retired"]


async def listing(shared: Shared, state: SkillState | None = None) -> tuple[SkillCounts, ...]:
    """All skills with their counts; those of one state without the ones that come with the
    program."""
    store = await shared.store()
    return await shared.thread(lambda: views.listed(store, shared.library(), state))


async def page(shared: Shared, name: str) -> SkillDetail:
    """One skill with its evidence and history. Raises NotFound."""
    store = await shared.store()
    return await shared.thread(lambda: views.detail(store, shared.library(), name))


async def decide(shared: Shared, name: str, verb: Verb, author: str, note: str) -> SkillView:
    """A person's word. Raises NotFound, and Conflict where no way leads there."""
    store = await shared.store()
    name = learned.name_of(name)
    message = note or f"{verb} by a person, without a note"

    def work() -> SkillView:
        try:
            store.skills.decide(name, verb, message, author=author)
        except NotFound:
            if f"skills/{name.removeprefix('skills/')}" not in {
                s.id for s in shared.library().skills()
            }:
                raise
            raise NotFound(
                f"{name} comes with the program and is in use",
                "",
                Action("list_skills", "shows which can be decided on"),
            ) from None
        return views.brief(store, name)

    return await shared.thread(work)


async def send(shared: Shared, name: str, parent: Path) -> Path:
    """Write a skill of the store as a folder below `parent`. Raises NotFound, Conflict,
    UsageError."""
    store = await shared.store()
    name = learned.name_of(name)
    return await shared.thread(
        lambda: folders.write(store.skills.get(name), store.skills.evidence(name), parent)
    )


async def receive(shared: Shared, folder: Path, author: str) -> SkillView:
    """A skill from a folder arrives as proposed, with its evidence marked as of elsewhere; where it
    is known, its evidence is added there. Raises UsageError."""
    store = await shared.store()

    def work() -> SkillView:
        day = datetime.now(UTC).date().isoformat()
        new, evidence = arriving.read(folder, f"elsewhere, imported {day} by {author}")
        kept, fresh = store.skills.propose(
            new, evidence, author=author, kind="imported", same=patterns.same_as(new)
        )
        return replace(views.brief(store, kept.id), merged=not fresh)

    return await shared.thread(work)
