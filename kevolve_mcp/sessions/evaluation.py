"""Evaluating kernels: submitted to a session as a node, or compiled, checked, profiled, tuned or
compared without one."""

from __future__ import annotations

from harness.types import Candidate
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.search import Ask
from kevolve_mcp.store import SessionRecord, Store

from . import (
    asking,
    comparing,
    descent,
    evaluating,
    inputs,
    places,
    recording,
    telling,
    tuning,
)
from .job import (
    CompareParameters,
    MeasureParameters,
    SubmitParameters,
    TuneParameters,
)
from .shared import Shared, UseCase
from .types import (
    CompareRequest,
    KernelRequest,
    SubmitRequest,
)

MOST_TRIALS = 64


class Evaluating(UseCase):
    """Evaluations. Each method answers at once where the store knows the answer, else with a job.
    They raise UsageError, NotFound and Conflict."""

    async def submit(self, request: SubmitRequest) -> api.Job:
        """Evaluate a kernel and record it as a node."""
        await self._check_opened(request.session_id)
        shared = self._shared
        store = await shared.store()
        record = await shared.thread(store.sessions.get, request.session_id)
        if record.state != "open":
            raise Conflict(
                f"session {record.id} is {record.state}: {record.reason}",
                "",
                Action("open_another", "opens another session"),
            )
        ask = (
            await shared.thread(store.asks.get, record.id, asking.ask_seq(request.ask_id))
            if request.ask_id
            else None
        )
        candidate = await _candidate(shared, store, record, request, ask)
        inputs.check_effort(request.effort)
        parents, assumed = descent.named(request, ask)
        await shared.thread(descent.check, store, record.id, parents)
        await shared.thread(store.candidates.put, candidate)
        parameters = SubmitParameters(
            session=record.id,
            candidate=candidate.digest,
            ask=ask.seq if ask else None,
            parents=parents,
            assumed_root=assumed,
            root_named=bool(request.parents) and not parents,
            author=asking.holder(request.author),
            hypothesis=request.hypothesis,
            predicted_speedup=request.predicted_speedup,
            rationale=request.rationale,
            tokens=request.tokens,
            usd=request.usd,
            repeat=request.repeat,
            effort=request.effort,
        )
        place = await places.of_session(shared, record)
        # otherwise a setting in progress would take the node's place in the budget
        async with shared.background.quiet():
            done = await recording.at_once(shared, place, parameters)
        if done is not None:
            shared.background.wake(record.id)
            result = await telling.submitted(shared, parameters, done)
            return await _at_once(shared, "submit", record.id, result)
        return await shared.jobs.start("submit", parameters)

    async def compile(self, request: KernelRequest) -> api.Job:
        """Build only."""
        return await self._measure(request, "compile")

    async def check(self, request: KernelRequest) -> api.Job:
        """Build and verify; no node."""
        return await self._measure(request, "check")

    async def profile(self, request: KernelRequest) -> api.Job:
        """Run all stages; no node."""
        return await self._measure(request, "profile")

    async def ablate(self, request: KernelRequest) -> api.Job:
        """Time a kernel even if it is incorrect; no node, no fitness."""
        return await self._measure(request, "ablation")

    async def _measure(self, request: KernelRequest, depth: api.Depth) -> api.Job:
        shared = self._shared
        store = await shared.store()
        loaded = await shared.thread(inputs.load_kernel, request.kernel)
        inputs.check_effort(request.effort)
        named = await places.name(shared, request)
        candidate = inputs.candidate(loaded, named.language)
        await shared.thread(store.candidates.put, candidate)
        parameters = MeasureParameters(
            depth=depth,
            where=named.where,
            candidate=candidate.digest,
            repeat=request.repeat,
            effort=request.effort,
        )
        if named.record is not None:
            place = await places.of_session(shared, named.record, named.where.target)
            order = places.order(place, candidate, parameters)
            if (answer := await evaluating.known(shared, order)) is not None:
                result = await telling.measured(shared, parameters, answer, cached=True)
                return await _at_once(shared, depth, named.record.id, result)
        return await shared.jobs.start(depth, parameters)

    async def tune(self, request: KernelRequest, count: int) -> api.Job:
        """Evaluate `count` choices of a file's TUNABLES besides the unchanged file; no node."""
        shared = self._shared
        store = await shared.store()
        if not 1 <= count <= MOST_TRIALS:
            raise UsageError(
                f"tune={count} is not accepted",
                f"Give 1 to {MOST_TRIALS}: how many choices of TUNABLES to evaluate.",
            )
        loaded = await shared.thread(inputs.load_kernel, request.kernel)
        named = await places.name(shared, request)
        candidate = inputs.candidate(loaded, named.language)
        tuning.check_tunables(candidate)
        await shared.thread(store.candidates.put, candidate)
        parameters = TuneParameters(where=named.where, candidate=candidate.digest, count=count)
        return await shared.jobs.start("tune", parameters)

    async def compare(self, request: CompareRequest) -> api.Job:
        """Time kernels against each other in the same rounds, always anew; no node."""
        if request.session_id:
            await self._check_opened(request.session_id)
        shared = self._shared
        store = await shared.store()
        inputs.check_effort(request.effort)
        named = await places.name(shared, request)
        kernels = await shared.thread(
            comparing.kernels, store, named.record, request, named.language
        )
        for candidate in kernels.values():
            await shared.thread(store.candidates.put, candidate)
        parameters = CompareParameters(
            where=named.where,
            candidates=tuple(c.digest for c in kernels.values()),
            labels=tuple(kernels),
            effort=request.effort,
        )
        return await shared.jobs.start("compare", parameters)


async def _candidate(
    shared: Shared, store: Store, record: SessionRecord, request: SubmitRequest, ask: Ask | None
) -> Candidate:
    if request.kernel:
        return inputs.candidate(
            await shared.thread(inputs.load_kernel, request.kernel), record.language
        )
    if ask is not None and ask.start is not None:
        return await shared.thread(store.candidates.get, ask.start.candidate)
    what = (
        f"ask {ask.id} is a {ask.role}, which needs a kernel from you"
        if ask
        else "no kernel was given"
    )
    raise UsageError(
        what, "Give path (absolute) or source; only asks of role start bring their own kernel."
    )


async def _at_once(shared: Shared, kind: api.Depth, session: str, result: api.Evaluated) -> api.Job:
    """The answer from the store, without job and worker."""
    return api.answered(kind, session, result, await shared.left(session))
