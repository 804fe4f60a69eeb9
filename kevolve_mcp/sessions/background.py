"""What a server does for a session while its author writes: starting kernels are evaluated, then
settings of a node's TUNABLES as its children, one at a time, within a share of the session's
budget.

It is not a job: all its results are nodes, and the next step follows from the tree. So a server
that ends leaves nothing to resume, and the next ask starts the work again. Any other measurement
of this process comes first: the current kernel is given up and its worker killed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.base import ProgressEvent

from . import places, recording
from .background_work import Setting, WaitingStart, next_work
from .shared import Shared

# before the first kernel, so that an author that answers at once need not wait for a worker to end
PAUSE_S = 2.0
START_S = 45.0  # the longest that an author waits for the first start
# other measurements come first, and a job that has just ended may still count as running
ATTEMPTS, RETRY_S = 10, 0.1
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Work:
    """The work for one session. begun: the pause is over. first: the first kernel is
    evaluated, or there is none. over: its processes are dead."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    begun: anyio.Event = field(default_factory=anyio.Event)
    first: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


class Background:
    """The work of a service while authors write. It never fails a caller: errors are logged, and
    the work is tried again after the next ask."""

    def __init__(self, shared: Shared, group: TaskGroup, *, looks_only: bool) -> None:
        self._shared, self._group, self._looks_only = shared, group, looks_only
        self._running: dict[str, _Work] = {}
        self._interrupted: set[str] = set()
        self._measuring: dict[str, Setting | WaitingStart] = {}
        self._quiet = 0
        self._turn = anyio.Lock()

    def under_way(self, session: str) -> int:
        """Return the number of the session's settings being evaluated, which will be charged to its
        budget. A start has an ask, which is counted as such."""
        return int(isinstance(self._measuring.get(session), Setting))

    def takes_starts(self, session: str) -> bool:
        """Return whether the session's starts are evaluated here, so that no author has to."""
        run = self._running.get(session)
        return run is not None and run.begun.is_set()

    async def first_start(self, session: str) -> None:
        """Evaluate a start if the session has no kernel yet, and return when it is a node, but
        after START_S at the latest: what its author should write follows from it."""
        if self._looks_only:
            return
        with anyio.move_on_after(START_S):
            for attempt in range(ATTEMPTS):
                await anyio.sleep(RETRY_S if attempt else 0)
                work = self._measuring.get(session) or await next_work(self._shared, session)
                if work is None or not work.first:
                    return
                self.wake(session)
                run = self._running[session]
                run.begun.set()
                await run.first.wait()

    def wake(self, session: str) -> None:
        """Begin, since the author of this session is writing. Returns at once."""
        if session and not self._looks_only and session not in self._running:
            self._running[session] = _Work()
            self._group.start_soon(self._run, session)

    def resume(self, session: str) -> None:
        """Go on after other measurements ended: for this session, whose author reads an answer, and
        for sessions that were interrupted."""
        for each in sorted({session, *self._interrupted}):
            self.wake(each)
        self._interrupted.clear()

    async def stop(self, session: str = "") -> None:
        """Stop for the session, or for all sessions, until the next `wake`; return when its
        processes are dead."""
        self._interrupted -= {session} if session else self._interrupted
        some = [run for name, run in self._running.items() if session in ("", name)]
        for run in some:
            run.scope.cancel()
        for run in some:
            await run.over.wait()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Pause inside the block, for another measurement. The work goes on afterwards, or when the
        job started inside has ended."""
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
        run = self._running[session]
        try:
            with run.scope:
                with anyio.move_on_after(PAUSE_S):
                    await run.begun.wait()
                run.begun.set()
                while await self._step(session):
                    run.first.set()
        except KEvolveError as error:
            log.info("work on %s while its author writes pauses: %s", session, error)
        # the service must go on, whatever the error
        except Exception:
            log.exception("work on %s while its author writes failed", session)
        finally:
            del self._running[session]
            run.first.set()
            run.over.set()

    async def _step(self, session: str) -> bool:
        """Evaluate one kernel as a node; False if none is left, or other work comes first."""
        shared = self._shared
        work = await next_work(shared, session)
        if work is None:
            return False
        store = await shared.store()
        record = await shared.thread(store.sessions.get, session)
        place = await places.of_session(shared, record)
        async with self._turn:
            if self._quiet or await self._busy(session):
                return False
            # the next caller finds this kernel counted, and this check counts asks made meanwhile
            async with shared.asking(session):
                if not await work.claim(shared):
                    return False
                self._measuring[session] = work
            try:
                await recording.record(shared, place, work.parameters, _silent)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await work.give_back(shared)
                raise
            finally:
                del self._measuring[session]
        return True

    async def _busy(self, session: str) -> bool:
        """Whether this process, or another one for this session, is doing other work."""
        if self._shared.jobs.busy:
            return True
        return any(not job.over for job in await self._shared.jobs.list(session))


def _silent(event: ProgressEvent) -> None:
    """Drop progress, since nobody waits."""
