"""What a person does with skills: view, accept, retire, export, import."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.store import SkillState

from ..shared import UseCase
from . import folders, importing, learned, patterns, views

Verb = Literal["accepted", "retired"]


class Reviewing(UseCase):
    async def skills(self, state: SkillState | None = None) -> tuple[api.SkillCounts, ...]:
        """Return all skills with their counts; with a state only stored skills of that state."""
        shared = self._shared
        store = await shared.store()
        return await shared.thread(lambda: views.listed(store, shared.library(), state))

    async def skill(self, name: str) -> api.SkillDetail:
        """Return one skill with its evidence and history. Raises NotFound."""
        shared = self._shared
        store = await shared.store()
        return await shared.thread(lambda: views.detail(store, shared.library(), name))

    async def decide_skill(self, name: str, verb: Verb, author: str, note: str = "") -> api.Skill:
        """Record a person's decision. Raises NotFound, and Conflict where the skill's state does
        not allow it."""
        shared = self._shared
        store = await shared.store()
        name = learned.name_of(name)
        message = note or f"{verb} by a person, without a note"

        def work() -> api.Skill:
            try:
                store.skills.decide(name, verb, message, author=author)
            except NotFound:
                if not views.shipped(shared.library(), name):
                    raise
                raise NotFound(
                    f"{name} comes with the program and is in use",
                    "",
                    Action("list_skills", "lists the skills that need a decision"),
                ) from None
            return views.brief(store, name)

        return await shared.thread(work)

    async def export_skill(self, name: str, parent: Path) -> Path:
        """Write a skill as a folder below `parent`. Raises NotFound, Conflict, UsageError."""
        shared = self._shared
        store = await shared.store()
        name = learned.name_of(name)

        def work() -> Path:
            try:
                record = store.skills.get(name)
            except NotFound:
                skill = views.shipped(shared.library(), name)
                if skill is None:
                    raise
                return folders.write_shipped(skill, parent)
            return folders.write(record, store.skills.evidence(name), parent)

        return await shared.thread(work)

    async def import_skill(self, folder: Path, author: str) -> api.Skill:
        """Import a skill from a folder as proposed, its evidence marked as foreign; a known skill
        gets the evidence. Raises UsageError, and Conflict for the name of a skill that comes with
        the program."""
        shared = self._shared
        store = await shared.store()

        def work() -> api.Skill:
            name = folder.resolve().name
            if shipped := views.shipped(shared.library(), name.replace("-", "_")):
                raise Conflict(
                    f"{shipped.id} comes with the program and is in use",
                    "If the folder holds another skill, give folder and skill another name.",
                )
            day = datetime.now(UTC).date().isoformat()
            new, evidence = importing.read(folder, f"elsewhere, imported {day} by {author}")
            kept, fresh = store.skills.propose(
                new, evidence, author=author, kind="imported", same=patterns.same_as(new)
            )
            return replace(views.brief(store, kept.id), merged=not fresh)

        return await shared.thread(work)
