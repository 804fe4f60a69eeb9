"""The store as one object: everything that must survive a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .records import SimilarKernel

if TYPE_CHECKING:  # SQLAlchemy is loaded when a store is opened, not when its name is imported
    from harness.types import Task

    from .artifacts import Artifacts
    from .engine import Database

# least similarity: three in four pairs above it are of the same family (benchmarks/similarity.py)
LEAST = 0.5


class Store:
    """Metadata in SQL, texts as content-addressed artifacts.

    | part | holds |
    | --- | --- |
    | `artifacts` | bytes by SHA-256 |
    | `tasks`, `candidates` | opened tasks and written candidates, by digest |
    | `sessions`, `asks`, `nodes` | the searches and their trees |
    | `approvals` | who approved a node |
    | `evaluations` | measurements, with cases and signals |
    | `jobs` | background work and the process that runs it |
    | `skills`, `skill_uses` | learned patterns, their evidence, history and uses |

    Concurrency: every method is synchronous and may be called from any thread; call it from a
    worker thread where an event loop runs. Several processes may open one home. A write is one
    transaction that holds the database's write lock from its beginning; reads see one consistent
    snapshot and block nobody.

    Ownership: returned values are frozen copies. The database is authoritative; anything derived
    from it (indexes, exports) may be deleted. Rows do not change after they were inserted, except
    the state of sessions, jobs and skills, and leases with the text shown to their holder.

    Failure: a call either returns after its transaction is durable or raises and has changed
    nothing. StoreError: the home or database cannot be used. NotFound: an unknown id. UsageError:
    values that do not belong together. Conflict: the state forbids it now. An artifact is written
    before the row that names it, so a crash leaves at most an unnamed artifact.

    Resume: all search state is derived from rows. `nodes.add` is the checkpoint; repeated, it
    returns the first node, so a caller that does not know whether an answer arrived sends it again.
    A job whose owner died becomes `lost` and is claimed by exactly one process. An ask whose lease
    expired may be given to another author.
    """

    def __init__(
        self,
        home: Path,
        database: Database,
        artifacts: Artifacts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Use `Store.open`."""
        from .approvals import Approvals
        from .asks import Asks
        from .evaluations import Evaluations
        from .jobs import Jobs
        from .nodes import Nodes
        from .sessions import Sessions
        from .similar import Signatures
        from .skill_uses import SkillUses
        from .skills import Skills
        from .tasks import Candidates, Tasks

        self.home = home
        self.artifacts = artifacts
        self._database = database
        self.tasks = Tasks(database, artifacts, clock)
        self.candidates = Candidates(database, artifacts, clock)
        self.evaluations = Evaluations(database, clock)
        self.sessions = Sessions(database, clock)
        self.asks = Asks(database, artifacts, clock)
        self.nodes = Nodes(database, clock)
        self.approvals = Approvals(database, clock)
        self.jobs = Jobs(database, clock)
        self.skills = Skills(database, artifacts, clock)
        self.skill_uses = SkillUses(database, clock)
        self._signatures = Signatures()

    @classmethod
    def open(
        cls,
        home: Path,
        url: str = "",
        *,
        artifacts: str = "",
        clock: Callable[[], float] = time.time,
        mounts: str | None = None,
    ) -> Store:
        """Open the store under `home`, creating and migrating it where needed.

        url: an SQLAlchemy URL; empty means `home/kevolve.db` (SQLite). artifacts: an fsspec URL;
        empty means `home/artifacts`. clock: seconds since the epoch. mounts: the text of
        /proc/mounts, read from there by default. Raises StoreError: the folder is not writable, is
        on a network file system (SQLite only), or contains a database of a newer version of this
        program.
        """
        from .artifacts import Artifacts
        from .engine import Database

        database = Database.open(home, url, mounts=mounts)
        try:
            return cls(home, database, Artifacts(artifacts or str(home / "artifacts")), clock)
        except BaseException:
            database.close()
            raise

    def similar(
        self,
        task: Task,
        target: str,
        language: str,
        limit: int = 3,
        *,
        exclude_session: str = "",
        before: float | None = None,
        least: float = LEAST,
    ) -> list[SimilarKernel]:
        """Return the best kernels of similar tasks, including the same task: one per task, target
        and language.

        Same target and language come first, then same language, then same target; within a group by
        similarity (at least `least`), then fitness. Nodes that were not confirmed at the end of
        their session, or refuted by a confirmation, are left out. before: only nodes that existed
        by then (seconds since the epoch).
        """
        from .nodes import load_nodes
        from .similar import matches

        with self._database.read() as connection:
            near = self._signatures.near(connection, task, least)
            kernels = matches(
                connection, near, target, language, exclude_session=exclude_session, before=before
            )[:limit]
            nodes = [load_nodes(connection, match.session, match.seq)[0] for match in kernels]
        return [
            SimilarKernel(
                self.tasks.get(match.task),
                match.session,
                node,
                self.candidates.get(match.candidate),
                match.target,
                match.device,
                match.similarity,
                self.evaluations.get(match.session, match.confirmed).evaluation.fitness
                if match.confirmed
                else None,
            )
            for match, node in zip(kernels, nodes, strict=True)
        ]

    def close(self) -> None:
        """Release the connections; the store cannot be used afterwards."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
