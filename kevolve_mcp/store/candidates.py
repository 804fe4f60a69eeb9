"""Candidates by digest."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from harness.types import Candidate
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound, StoreError

from . import schema
from .artifacts import Artifacts
from .engine import Database
from .rows import insert_once


class Candidates:
    """Source text is an artifact; the row adds the language."""

    def __init__(
        self, database: Database, artifacts: Artifacts, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def put(self, candidate: Candidate) -> str:
        """Keep it and return its digest; a second time changes nothing."""
        source = self._artifacts.put(candidate.source)
        row = {"language": candidate.language, "source": source, "created": self._clock()}
        with self._database.write() as connection:
            insert_once(connection, schema.candidates, {"digest": candidate.digest}, row)
        return candidate.digest

    def get(self, digest: str) -> Candidate:
        """Raises NotFound; StoreError when text and digest do not agree."""
        with self._database.read() as connection:
            row = connection.execute(
                select(schema.candidates).where(schema.candidates.c.digest == digest)
            ).one_or_none()
        if row is None:
            raise NotFound(
                f"there is no candidate with digest {digest[:12]!r}.",
                "",
                Action("view", "shows the nodes and their candidates"),
            )
        candidate = Candidate(self._artifacts.text(row.source), row.language)
        if candidate.digest != digest:
            raise StoreError(
                f"the row of candidate {digest[:12]} names another text.",
                "The database was changed by hand; restore it.",
            )
        return candidate
