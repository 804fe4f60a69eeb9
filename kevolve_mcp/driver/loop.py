"""The autonomous loop: take an ask from the server, let the author answer, submit the answer, until
the server says that the search has ended.

The loop keeps no state that the server does not keep. After being killed at any moment, it goes on
from the server's tree: unanswered asks are given out again, and a node is complete or absent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import anyio

from harness.types import Budget
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, KEvolveError, UsageError
from kevolve_mcp.synthesis.authors import (
    FREE,
    AskContext,
    Author,
    AuthorError,
    BudgetSpent,
    Exhausted,
    Proposal,
)

from . import decisions, events
from .answers import NOTHING_SPENT, UNLIMITED, Told
from .client import SessionClient
from .decisions import Again, GiveUp, GoOn, Pause, Standing, Stop
from .device_use import NOTHING_USED, DeviceUse, UseMeter
from .lessons import lesson
from .options import Options, differences, extended, open_arguments
from .proposal_budget import ProposalBudget
from .tools import Tools

PAUSE_S = 0.5  # before a failed author is asked again
CANCEL_S = 10.0  # how long a cancelled run may take to stop its jobs

Listener = Callable[[events.Event], None]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. nodes: the number that it added. ending: None where nothing could be
    exported; `reason` says why. use: how its search used the device."""

    session: api.Session
    reason: str
    nodes: int
    ending: api.Finished | None = None
    use: DeviceUse = NOTHING_USED


class Driver:
    """One run of one session.

    tools: the server (a `Connection`, or anything with its `call`). author: closed by its maker.
    listen: called with every event in order, on the event loop; it must not block. Concurrency:
    `run` once per Driver. Cancellation: the jobs of this session are cancelled and their workers
    killed, every finished node stays, and `Options(resume=...)` goes on.
    """

    def __init__(
        self, tools: Tools, author: Author, options: Options, listen: Listener | None = None
    ) -> None:
        self._author = author
        self._options = options
        self._listen = listen or (lambda event: None)
        self._server = SessionClient(tools, self._listen, options.wait_s)
        self._standing = Standing()
        self._stop: Stop | GiveUp | None = None
        self._best: api.Node | None = None
        self._proposal_budget, self._meter = ProposalBudget(), UseMeter(NOTHING_SPENT)
        self._budget: Budget | None = None
        self._extended = False
        self._taking = anyio.Lock()
        self._alone = anyio.Lock()

    async def run(self) -> RunOutcome:
        """Run to the end. Raises the KEvolveError that ended the run without ending the session
        (evaluator gone, task refused …)."""
        session = await self._open()
        try:
            if session.state not in ("open", "opening"):
                return await self._over(session)
            self._meter = UseMeter(session.spent)
            stop = await self._search(session.id)
            if self._extended and stop.reason == "budget_spent" and not self._standing.nodes:
                raise UsageError(
                    f"nothing fits the remaining budget of {session.id}: {stop.detail}",
                    "Raise the limits and resume it again.",
                )
            session = await self._server.view(session.id)
            use = self._meter.use(session.spent)
            self._listen(events.Terminated(stop.reason, stop.detail, session.spent, use))
            return replace(await self._finish(session, stop), use=use)
        except anyio.get_cancelled_exc_class():
            # they end with the server, too
            with anyio.move_on_after(CANCEL_S, shield=True), suppress(KEvolveError):
                await self._server.cancel(session.id)
            raise

    async def _open(self) -> api.Session:
        spec = self._options.session
        if spec is None:
            session, resumed = await self._server.view(self._options.resume), True
            if session.state == "open" and self._options.more != UNLIMITED:
                self._budget = extended(session.budget, session.spent, self._options.more)
                session, self._extended = replace(session, budget=self._budget), True
        else:
            session, resumed = await self._server.open(open_arguments(spec))
        self._best, self._proposal_budget = (
            session.best,
            ProposalBudget(session.budget, session.spent),
        )
        self._listen(events.SessionOpened(session, resumed))
        self._listen(events.Baseline(session.cases, session.notes))
        if resumed and spec is not None and (other := differences(spec, session)):
            self._listen(
                events.Remark(
                    f"joined the open session {session.id}, although {other}",
                    (Action("open_another", "opens another"),),
                )
            )
        return session

    async def _over(self, session: api.Session) -> RunOutcome:
        """The outcome of a session that had ended before this run."""
        reason = f"the session was already {session.state}: {session.reason}".rstrip(": ")
        ending = (
            await self._server.finish(session.id, contents=self._options.contents)
            if session.state == "finished"
            else None
        )
        return RunOutcome(session, reason, 0, ending)

    async def _search(self, session_id: str) -> Stop:
        async with anyio.create_task_group() as group:
            for _ in range(max(1, self._options.parallel)):
                group.start_soon(self._work, session_id)
        if lost := self._proposal_budget.unbilled:
            paid = f" ({lost.usd:.4g} US dollars)" if lost.usd else ""
            self._listen(
                events.Remark(
                    f"{lost.tokens:,} tokens{paid} were spent on proposals without a node; the "
                    "session does not count them"
                )
            )
        if isinstance(self._stop, GiveUp):
            raise self._stop.error
        return self._stop or Stop("stopped")

    async def _work(self, session_id: str) -> None:
        """Take asks and answer them, as one of `parallel` equal workers, until one decides to
        stop."""
        while self._stop is None:
            try:
                # one worker at a time: an ask taken after the announced end would stay open
                async with self._taking:
                    ask = None if self._stop else await self._take(session_id)
            except KEvolveError as error:
                return self._decide(GiveUp(error))
            if ask is not None:
                await self._answer(ask)
        return None

    async def _take(self, session_id: str) -> AskContext | None:
        if limit := self._proposal_budget.exhausted():
            self._decide(
                Stop(
                    "budget_spent",
                    f"failed proposals have used up the remaining limit of {limit}",
                )
            )
            return None
        waits = isinstance(
            decisions.before_asking(
                self._standing, self._proposal_budget.budget, self._proposal_budget.spent
            ),
            Pause,
        )
        if waits or self._proposal_budget.spoken_for():
            await self._server.idle(session_id)
            return None
        batch = await self._server.next(session_id, self._budget)
        self._budget = None  # told once
        self._proposal_budget.update(batch.session.spent)
        self._standing, step = decisions.after_batch(
            self._standing, len(batch.asks), batch.ended, batch.detail
        )
        self._decide(step)
        if isinstance(step, Pause):
            await self._server.idle(session_id)
        if not batch.asks:
            return None
        self._standing = decisions.took(self._standing)
        return batch.asks[0]

    async def _answer(self, ask: AskContext) -> None:
        """Work on the ask until it has its node, or is left to others."""
        step: decisions.Step = Again()
        while isinstance(step, Again) and self._stop is None:
            step = await self._try(ask)
            self._decide(step)
            if isinstance(step, Again):
                await anyio.sleep(PAUSE_S)
        if isinstance(step, Pause):
            await self._server.idle(ask.session)

    async def _try(self, ask: AskContext) -> decisions.Step:
        try:
            proposal = await self._propose(ask)
        except Exhausted as error:
            # reported once: it will have no proposal for later asks either
            if not self._standing.declined:
                self._listen(events.Remark(f"{ask.id}: {error.message}"))
            self._standing, step = decisions.after_exhausted(self._standing, error)
            return step
        except KEvolveError as error:
            self._listen(events.Remark(f"{ask.id}: the author failed: {error}"))
            self._standing, step = decisions.after_author_error(self._standing, error)
            return step
        bill = self._proposal_budget.bill()
        try:
            with self._meter.judging():
                reply = await self._server.submit(ask, proposal, bill)
        except KEvolveError as error:
            self._proposal_budget.billed(bill, None)
            self._listen(events.Remark(f"{ask.id}: no node: {error}"))
            self._standing, step = decisions.after_submit_error(self._standing, error)
            return step
        self._standing = decisions.after_node(self._standing)
        self._proposal_budget.billed(bill, reply.spent)
        self._meter.note(reply)
        self._tell(ask, reply)
        return GoOn()

    async def _propose(self, ask: AskContext) -> Proposal:
        """The author's answer. If an equal share of the budget was too little, the author gets all
        of it once nobody else writes."""
        parallel = max(1, self._options.parallel)
        try:
            return await self._let_write(ask, parallel)
        except BudgetSpent:
            if parallel == 1:
                raise
        async with self._alone:
            while not self._proposal_budget.settled:
                await anyio.sleep(PAUSE_S)
            return await self._let_write(ask, 1)

    async def _let_write(self, ask: AskContext, workers: int) -> Proposal:
        """The author's answer; its cost is counted, also that of a failure."""
        number, allowance = self._proposal_budget.reserve(workers)
        cost = FREE
        try:
            proposal = await self._author.propose(replace(ask, allowance=allowance))
            cost = proposal.cost
            return proposal
        except AuthorError as error:
            cost = error.cost
            raise
        finally:
            self._proposal_budget.release(number, cost)

    def _tell(self, ask: AskContext, reply: Told) -> None:
        self._listen(events.NodeEvaluated(reply, self._standing.nodes))
        self._listen(
            events.SkillsLearned(
                reply.node.id, lesson(reply, ask.parents[0].params if ask.parents else None)
            )
        )
        if reply.new_best:
            self._listen(events.BestImproved(reply.node, self._best))
            self._best = reply.node

    def _decide(self, step: decisions.Step) -> None:
        """Note a decision; the first one to stop holds."""
        if self._stop is None and isinstance(step, (Stop, GiveUp)):
            self._stop = step

    async def _finish(self, session: api.Session, stop: Stop) -> RunOutcome:
        try:
            ending = await self._server.finish(session.id, contents=self._options.contents)
        except Conflict as error:
            self._listen(events.Remark(f"nothing to export: {error}"))
            return RunOutcome(session, f"{stop.reason}: {error}", self._standing.nodes)
        self._listen(events.SearchFinished(ending))
        if ending.package:
            self._listen(events.PackageExported(ending.package, ending.skills))
        return RunOutcome(ending.session, stop.reason, self._standing.nodes, ending)
