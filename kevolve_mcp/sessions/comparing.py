"""Timing kernels against each other, without recording nodes."""

from __future__ import annotations

from pathlib import Path

from harness.types import (
    MOST_COMPARED,
    Candidate,
    ComparisonRequest,
    Duel,
)
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.store import NodeDuel, SessionRecord, Store

from . import evaluating, inputs, places
from .job import CompareParameters, JobKind
from .shared import Shared
from .types import CompareRequest


class CompareJob(JobKind[CompareParameters, api.Compared]):
    kind = "compare"
    parameters = CompareParameters
    result = api.Compared
    usual_s = 30.0

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def run(self, parameters: CompareParameters, progress: Progress) -> api.Compared:
        shared, p = self._shared, parameters
        store = await shared.store()
        candidates = [await shared.thread(store.candidates.get, digest) for digest in p.candidates]
        place = await places.find(shared, p.where, progress)
        request = ComparisonRequest(tuple(candidates), place.policy, p.effort)
        comparison, kept = await evaluating.compared(
            shared, place.task, request, place.target, place.executor, place.session, progress
        )
        evaluations = tuple(
            api.evaluation(evaluation, number, held_out=False) for number, evaluation in kept
        )
        duels = tuple(duel_view(named(duel, p.labels)) for duel in comparison.in_order())
        return api.Compared(p.session, p.labels, evaluations, duels, comparison.processes)


def named(duel: Duel, labels: tuple[str, ...]) -> NodeDuel:
    return NodeDuel(
        labels[duel.first], labels[duel.second], duel.ratio, duel.interval, duel.verdict, duel.cases
    )


def duel_view(duel: NodeDuel) -> api.Duel:
    return api.Duel(duel.first, duel.second, duel.ratio, duel.interval, duel.verdict, duel.cases)


def kernels(
    store: Store, record: SessionRecord | None, request: CompareRequest, language: str
) -> dict[str, Candidate]:
    """Return the kernels by label, first the one that the others are compared with. Raises
    UsageError, NotFound."""
    candidates: dict[str, Candidate] = {}
    first = [request.kernel] if request.kernel else []
    for place, text in enumerate((*first, *request.against)):
        if isinstance(text, str):
            if record is None:
                raise UsageError(
                    f"{text} is a node id, but no session was given",
                    "Name its session, or give paths and texts.",
                )
            label, candidate = (
                text,
                store.candidates.get(store.nodes.get(record.id, text).candidate),
            )
        else:
            loaded = inputs.load_kernel(text)
            label, candidate = (
                Path(loaded.path).name or f"kernel {place + 1}",
                inputs.candidate(loaded, language),
            )
        candidates[label if label not in candidates else f"{label} ({place + 1})"] = candidate
    _check(candidates)
    return candidates


def _check(kernels: dict[str, Candidate]) -> None:
    if not 2 <= len(kernels) <= MOST_COMPARED:
        labels = ", ".join(kernels) or "none"
        raise UsageError(
            f"{len(kernels)} kernels were given ({labels})",
            f"Give 2 to {MOST_COMPARED}: node ids, paths or texts.",
        )
    seen: dict[str, str] = {}
    for label, candidate in kernels.items():
        if candidate.digest in seen:
            raise UsageError(
                f"{seen[candidate.digest]} and {label} are the same text", "Leave one of them out."
            )
        seen[candidate.digest] = label
    languages = {candidate.language for candidate in kernels.values()}
    if len(languages) > 1:
        raise UsageError(
            f"the kernels are in different languages: {', '.join(sorted(languages))}",
            "Compare kernels of one language.",
        )
