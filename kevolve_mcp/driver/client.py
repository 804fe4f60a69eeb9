"""The tools of the server as the loop uses them: typed calls that wait for their jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import anyio

from harness.types import Budget
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, KEvolveError
from kevolve_mcp.synthesis.authors import FREE, AskContext, Cost, Proposal

from .answers import Told, read
from .events import Working
from .options import limits
from .tools import Answer, ProgressListener, Tools

REPEATS = 3  # how often a job that was lost, or cancelled by others, is started again


ASK_TOKENS = 60_000  # room for the whole history: an author must not repeat what was tried


@dataclass(frozen=True)
class Batch:
    """The answer to session_next. ended: why the search should stop, "" while it goes on; detail:
    the same as a sentence."""

    session: api.Session
    asks: tuple[AskContext, ...]
    ended: str = ""
    detail: str = ""


class SessionClient:
    """One session over MCP. listen: gets Working events while a call waits. wait_s: see Options."""

    def __init__(self, tools: Tools, listen: Callable[[Working], None], wait_s: float) -> None:
        self._tools = tools
        self._listen = listen
        self._wait_s = wait_s

    async def open(self, arguments: dict[str, Any]) -> tuple[api.Session, bool]:
        """Open the session and return it with whether it was already open. Raises TaskRefused and
        other KEvolveErrors."""
        first = await self._tools.call(
            "session_open", {**arguments, "wait_s": self._wait_s}, self._progress("open")
        )
        done = await self._settle(first, "open")
        # job_wait has it inside `result`, session_open at the top level
        opened = done.get("result") or done
        return read(api.Session, opened.get("session"), "session_open"), bool(opened.get("joined"))

    async def view(self, session_id: str) -> api.Session:
        """Return the current state of the session. Raises NotFound."""
        answer = await self._tools.call("tree_view", {"session_id": session_id})
        return read(api.Session, answer.data.get("data", {}).get("session"), "tree_view")

    async def next(self, session_id: str, budget: Budget | None = None) -> Batch:
        """Return the next ask, for an author who has seen none before. budget: replaces the
        session's."""
        arguments: dict[str, Any] = {
            "session_id": session_id,
            "fresh": True,
            "max_tokens": ASK_TOKENS,
        }
        if budget is not None:
            arguments["budget"] = limits(budget)
        answer = await self._tools.call("session_next", arguments)
        session = read(api.Session, answer.data.get("session"), "session_next")
        asks = tuple(
            AskContext.parse(a["context"], answer.body) for a in answer.data.get("asks", ())
        )
        return Batch(
            session,
            asks,
            str(answer.data.get("ended", "")),
            str(answer.data.get("ended_detail", "")),
        )

    async def submit(self, ask: AskContext, proposal: Proposal, spent: Cost = FREE) -> Told:
        """Submit a proposal and return its node; repeated, it returns the same node. spent: counts
        against the session's budget."""
        arguments = {
            "session_id": ask.session,
            "ask_id": ask.id,
            "source": proposal.source,
            "hypothesis": proposal.hypothesis,
            "rationale": proposal.rationale,
            "wait_s": self._wait_s,
        }
        if proposal.predicted_speedup is not None:
            arguments["predicted_speedup"] = proposal.predicted_speedup
        if spent:
            arguments["usage"] = {"tokens": spent.tokens, "usd": spent.usd}
        reply = read(
            Told, await self._until_done("kernel_submit", arguments, ask.id), "kernel_submit"
        )
        return replace(
            reply,
            node=replace(reply.node, interval=reply.node.interval or reply.evaluation.interval),
        )

    async def finish(
        self, session_id: str, node_id: str = "", *, contents: bool = False
    ) -> api.Finished:
        """Re-validate, export, propose skills. node_id: the node to export instead of the best.
        contents: whether to return the package's files."""
        arguments: dict[str, Any] = {"session_id": session_id, "wait_s": self._wait_s}
        arguments |= ({"node_id": node_id} if node_id else {}) | (
            {"include_files": True} if contents else {}
        )
        return read(
            api.Finished,
            await self._until_done("session_finish", arguments, "finish"),
            "session_finish",
        )

    async def cancel(self, session_id: str) -> None:
        """Stop the session's jobs and kill their workers; recorded results are kept."""
        await self._tools.call("job_cancel", {"session_id": session_id})

    async def idle(self, session_id: str) -> None:
        """Wait until a job of this session ends, at most one second."""
        with suppress(KEvolveError):  # a failed job is reported to whoever started it
            await self._tools.call("job_wait", {"session_id": session_id, "wait_s": 1.0})
        await anyio.sleep(0.2)  # without a running job the call returns at once

    async def _until_done(self, tool: str, arguments: dict[str, Any], what: str) -> Any:
        for _ in range(REPEATS):
            first = await self._tools.call(tool, arguments, self._progress(what))
            done = await self._settle(first, what)
            if done.get("state", "done") == "done":
                return done.get("result")
        raise Conflict(
            f"{what}: the server's job was {done['state']} {REPEATS} times",
            "Another client may be cancelling this session's jobs; stop it, then resume.",
        )

    async def _settle(self, answer: Answer, what: str) -> dict[str, Any]:
        """The answer of a finished job. Raises the job's error."""
        answer = await settled(self._tools, answer, self._wait_s, self._progress(what))
        if answer.data.get("state") == "failed":
            raise KEvolveError(
                f"{what} failed: {answer.data.get('verdict', '')}",
                "",
                Action("describe_targets", "shows what works here"),
            )
        return answer.data

    def _progress(self, what: str) -> ProgressListener:
        return lambda message, fraction: self._listen(Working(what, message, fraction))


async def settled(
    tools: Tools, answer: Answer, wait_s: float, progress: ProgressListener | None = None
) -> Answer:
    """Wait for the job that an answer names, if it names a running job.

    Args:
        tools: The tools that answered.
        answer: An answer that may have come before its job was done.
        wait_s: The length of one waiting call.
        progress: Takes the job's progress.

    Returns:
        `answer` itself, or the answer at the end of the wait.
    """
    job = str(answer.data.get("job_id", ""))
    while answer.data.get("state") == "running":
        answer = await tools.call("job_wait", {"job_id": job, "wait_s": wait_s}, progress)
    return answer
