"""The choice of parameters to try next; and the search of one file's TUNABLES on request, as
evaluations without nodes. `background` searches the nodes of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.types import Candidate, CandidateError, EvaluationRequest
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.search import Node, figures, interval
from kevolve_mcp.store import StoredEvaluation
from kevolve_mcp.synthesis import HistoryRow, next_choice, structure_digest
from kevolve_mcp.synthesis.tuning import Choice, TuningExhausted

from . import evaluating, places
from .evaluating import EvaluationOrder
from .job import JobKind, TuneParameters
from .shared import Shared


def check_tunables(candidate: Candidate) -> None:
    """Check that a candidate can be tuned. Raises UsageError."""
    try:
        next_choice(candidate, (), 0, use_optuna=False)
    except CandidateError as error:
        raise UsageError(
            str(error),
            'Write TUNABLES = {"BLOCK": [64, 128]} and PARAMS = {"BLOCK": 64} as literals.',
        ) from None


def choose(candidate: Candidate, tried: Sequence[HistoryRow]) -> Choice:
    """Return the parameters to try next; the same for the same text and history. Raises UsageError,
    TuningExhausted."""
    return next_choice(candidate, tried, int(candidate.digest[:8], 16))


def row(node: Node) -> HistoryRow:
    """Return a node as a row of the history."""
    return HistoryRow(
        node.id,
        node.status,
        node.fitness,
        dict(node.params),
        node.structure,
        candidate=node.candidate,
    )


class TuneJob(JobKind[TuneParameters, api.Tuned]):
    """The job that tunes a file. Run again after a crash, it finds its evaluations in the store."""

    kind = "tune"
    parameters = TuneParameters
    result = api.Tuned
    usual_s = 120.0

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def run(self, parameters: TuneParameters, progress: Progress) -> api.Tuned:
        shared, count = self._shared, parameters.count
        store = await shared.store()
        candidate = await shared.thread(store.candidates.get, parameters.candidate)
        place = await places.find(shared, parameters.where, progress)
        trials, history, trial = list[api.Trial](), list[HistoryRow](), candidate
        structure = structure_digest(candidate)
        for number in range(count + 1):
            message = f"choice {number} of {count}: {trial.params()}"
            progress(ProgressEvent("tune", message, number / (count + 1)))
            order = EvaluationOrder(
                place.task,
                EvaluationRequest(trial, policy=place.policy),
                place.target,
                place.executor,
                place.session,
            )
            stored, _ = await evaluating.stored(shared, order, _silent)
            trials.append(_row(stored, trial.params(), given=number == 0))
            e = stored.evaluation
            history.append(
                HistoryRow(
                    "", e.status, e.fitness, trial.params(), structure, candidate=trial.digest
                )
            )
            try:
                trial = (await shared.thread(choose, candidate, history)).candidate
            except TuningExhausted:
                break
        return api.Tuned(parameters.session, tuple(sorted(trials, key=lambda t: -t.assured)))


def _row(stored: StoredEvaluation, params: dict[str, Any], *, given: bool) -> api.Trial:
    e = stored.evaluation
    between = interval(e.cases) if e.fitness else None
    return api.Trial(
        params, e.status, stored.id, figures(e.cases).latency_us, e.fitness, between, given
    )


def _silent(event: ProgressEvent) -> None:
    """Drop the stages of a single evaluation, since its number says more."""
