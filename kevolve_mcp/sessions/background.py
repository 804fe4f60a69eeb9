"""Parameters searched while an author thinks: settings of a node's TUNABLES as children of it, one
evaluation at a time, within a share of the session's budget.

It is no job: all that it found are nodes, and what comes next follows from the tree. So a server
that ends leaves nothing to take up, and the next ask begins it again. Whatever else this process is
asked to measure comes first: the setting under way is given up, its worker killed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.base import ProgressEvent
from kevolve_mcp.search import Node, Tree, affordable, figures, next_to_tune, terminate
from kevolve_mcp.search.provenance import PARAMETER_SEARCH
from kevolve_mcp.store import SessionRecord
from kevolve_mcp.synthesis.tuning import Choice, TuningExhausted

from . import places, recording, tuning
from .job import SubmitParameters
from .shared import Shared

# before the first setting: an author that answers at once is not to wait for a worker's end
PAUSE_S = 2.0
log = logging.getLogger(__name__)


class Background:
    """One per service. Nothing of it fails a caller: what goes wrong is logged, and tried again
    after the next ask."""

    def __init__(self, shared: Shared, group: TaskGroup, *, looks_only: bool) -> None:
        self._shared, self._group, self._looks_only = shared, group, looks_only
        self._running: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self._interrupted: set[str] = set()
        self._measuring: set[str] = set()
        self._quiet = 0
        self._turn = anyio.Lock()

    def under_way(self, session: str) -> int:
        """How many settings of the session are being evaluated now, each of which will be charged
        to its budget."""
        return int(session in self._measuring)

    def wake(self, session: str) -> None:
        """The author of this session thinks. Returns at once."""
        if session and not self._looks_only and session not in self._running:
            self._running[session] = anyio.CancelScope(), anyio.Event()
            self._group.start_soon(self._run, session)

    def resume(self, session: str) -> None:
        """Nothing else is being measured any more: the author of this session reads an answer, and
        those of sessions that were interrupted still think."""
        for each in sorted({session, *self._interrupted}):
            self.wake(each)
        self._interrupted.clear()

    async def stop(self, session: str = "") -> None:
        """Give up what is under way for the session, or for all of them, until the next `wake`;
        returns when its processes are dead."""
        self._interrupted -= {session} if session else self._interrupted
        some = [entry for name, entry in self._running.items() if session in ("", name)]
        for scope, _ in some:
            scope.cancel()
        for _, over in some:
            await over.wait()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Something else is about to be measured or told: nothing of this is under way inside. It
        goes on afterwards, or when the job that was started inside is over."""
        self._quiet += 1
        interrupted = self._interrupted | set(self._running)
        try:
            await self.stop()
            self._interrupted |= interrupted
            yield
        finally:
            self._quiet -= 1
            if not self._quiet and not self._shared.jobs.busy:
                self.resume("")

    async def _run(self, session: str) -> None:
        scope, over = self._running[session]
        try:
            with scope:
                await anyio.sleep(PAUSE_S)
                while await self._step(session):
                    pass
        except KEvolveError as error:
            log.info("parameter search of %s pauses: %s", session, error)
        # the service must go on, whatever it is
        except Exception:
            log.exception("parameter search of %s failed", session)
        finally:
            del self._running[session]
            over.set()

    async def _step(self, session: str) -> bool:
        """One setting as a node; False where nothing is left, or something else comes first."""
        shared = self._shared
        store = await shared.store()
        record = await shared.thread(store.sessions.get, session)
        if record.state != "open":
            return False
        tree = await shared.thread(shared.trees.load, store, session)
        node = await self._next(record, tree)
        if node is None:
            return False
        candidate = await shared.thread(store.candidates.get, node.candidate)
        rows = [tuning.row(n) for n in tree.families[node.family]]
        try:
            choice = await shared.thread(tuning.choose, candidate, rows)
        except TuningExhausted:
            return False
        await shared.thread(store.candidates.put, choice.candidate)
        place = await places.of_session(shared, record)
        async with self._turn:
            if self._quiet or await self._busy(session):
                return False
            # whoever asks next finds it counted, and it counts what was asked for meanwhile
            async with shared.asking(session):
                if not await self._fits(session):
                    return False
                self._measuring.add(session)
            try:
                await recording.record(shared, place, _parameters(session, node, choice), _silent)
            finally:
                self._measuring.discard(session)
        return True

    async def _fits(self, session: str) -> bool:
        """Whether the budget has room for one more setting at this moment."""
        shared = self._shared
        store = await shared.store()
        record = await shared.thread(store.sessions.get, session)
        tree = await shared.thread(shared.trees.load, store, session)
        demand = await shared.thread(store.sessions.demand, session)
        waiting = [ask for ask in demand.waiting if ask.seq not in demand.asks_measured]
        return affordable(
            tree,
            record.options.tune,
            record.budget,
            demand.spent,
            waiting,
            len(demand.measuring),
        )

    async def _next(self, record: SessionRecord, tree: Tree) -> Node | None:
        """None where the search is over, its share of the budget is spent, or nothing is left."""
        shared = self._shared
        store = await shared.store()
        if not await self._fits(record.id):
            return None
        spent = await shared.thread(store.sessions.spent, record.id)
        best = tree.best()
        if best is None:
            return None
        evaluation = (
            await shared.thread(store.evaluations.get, record.id, best.evaluation)
        ).evaluation
        reached = figures(evaluation.cases)
        if terminate(tree, record.goal, record.budget, spent, best=reached) is not None:
            return None
        return next_to_tune(tree)

    async def _busy(self, session: str) -> bool:
        """Whether this process, or for this session another one, is at work on something else."""
        if self._shared.jobs.busy:
            return True
        return any(not job.over for job in await self._shared.jobs.list(session))


def _parameters(session: str, node: Node, choice: Choice) -> SubmitParameters:
    """As of a kernel that is handed in."""
    changed = ", ".join(
        f"{name}={value}" for name, value in choice.params.items() if node.params.get(name) != value
    )
    return SubmitParameters(
        session=session,
        candidate=choice.candidate.digest,
        parents=(node.id,),
        role="tune",
        author=PARAMETER_SEARCH,
        hypothesis=f"{node.id} with {changed} ({choice.method})",
    )


def _silent(event: ProgressEvent) -> None:
    """Nobody waits for it."""
