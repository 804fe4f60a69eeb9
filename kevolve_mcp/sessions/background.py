"""Parameter search while an author writes: settings of a node's TUNABLES are evaluated as its
children, one at a time, within a share of the session's budget.

It is not a job: all its results are nodes, and the next step follows from the tree. So a server
that ends leaves nothing to resume, and the next ask starts the search again. Any other measurement
of this process comes first: the current setting is given up and its worker killed.
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

# before the first setting, so that an author that answers at once need not wait for a worker to end
PAUSE_S = 2.0
log = logging.getLogger(__name__)


class Background:
    """The parameter search of a service. It never fails a caller: errors are logged, and the search
    is retried after the next ask."""

    def __init__(self, shared: Shared, group: TaskGroup, *, looks_only: bool) -> None:
        self._shared, self._group, self._looks_only = shared, group, looks_only
        self._running: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self._interrupted: set[str] = set()
        self._measuring: set[str] = set()
        self._quiet = 0
        self._turn = anyio.Lock()

    def under_way(self, session: str) -> int:
        """Return the number of the session's settings being evaluated, which will be charged to its
        budget."""
        return int(session in self._measuring)

    def wake(self, session: str) -> None:
        """Start searching, since the author of this session is writing. Returns at once."""
        if session and not self._looks_only and session not in self._running:
            self._running[session] = anyio.CancelScope(), anyio.Event()
            self._group.start_soon(self._run, session)

    def resume(self, session: str) -> None:
        """Go on after other measurements ended: for this session, whose author reads an answer, and
        for sessions that were interrupted."""
        for each in sorted({session, *self._interrupted}):
            self.wake(each)
        self._interrupted.clear()

    async def stop(self, session: str = "") -> None:
        """Stop the search for the session, or for all sessions, until the next `wake`; return when
        its processes are dead."""
        self._interrupted -= {session} if session else self._interrupted
        some = [entry for name, entry in self._running.items() if session in ("", name)]
        for scope, _ in some:
            scope.cancel()
        for _, over in some:
            await over.wait()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Pause the search inside the block, for another measurement. It goes on afterwards, or
        when the job started inside has ended."""
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
        # the service must go on, whatever the error
        except Exception:
            log.exception("parameter search of %s failed", session)
        finally:
            del self._running[session]
            over.set()

    async def _step(self, session: str) -> bool:
        """Evaluate one setting as a node; False if none is left, or other work comes first."""
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
            # the next caller finds this setting counted, and this check counts asks made meanwhile
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
        """Whether the budget has room for one more setting now."""
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
        """The next node to search; None where the search is over, its share of the budget is spent,
        or nothing is left."""
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
        """Whether this process, or another one for this session, is doing other work."""
        if self._shared.jobs.busy:
            return True
        return any(not job.over for job in await self._shared.jobs.list(session))


def _parameters(session: str, node: Node, choice: Choice) -> SubmitParameters:
    """The parameters of a submitted kernel."""
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
    """Drop progress, since nobody waits."""
