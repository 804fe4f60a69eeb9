"""A job as an answer: the same result reads the same, whether its own tool or job_wait hands it
over."""

from __future__ import annotations

from typing import Any

from mcp.types import CallToolResult

from harness.types import to_json
from kevolve_mcp import api

from .answer import answer
from .phrase import Phrase
from .results import EvaluationReply, FinishReply, JobsReply, SessionReply, said
from .wording import comparisons, kernels, rest, sessions, tuning


def open_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    session = job.result.session if isinstance(job.result, api.Opened) else None
    joined = isinstance(job.result, api.Opened) and job.result.joined
    return answer(
        phrase,
        SessionReply(
            **_common(job, phrase), session=to_json(session) if session else None, joined=joined
        ),
    )


def evaluation_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    return answer(phrase, EvaluationReply(**_common(job, phrase), **_evaluated(job)))


def finish_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    result = job.result if isinstance(job.result, api.Finished) else None
    best = (result.measured or result.confirmed) if result else None
    reply = FinishReply(
        **_common(job, phrase),
        package=result.package if result else "",
        fitness=best.fitness if best else None,
        result=to_json(result) if result else None,
    )
    return answer(phrase, reply)


def job_answer(job: api.Job) -> CallToolResult:
    """What job_wait says of any kind of job."""
    phrase = phrased(job)
    result = to_json(job.result) if job.result is not None else None
    return answer(phrase, JobsReply(**_common(job, phrase), kind=job.kind, result=result))


def phrased(job: api.Job) -> Phrase:
    """The job's result in words, or where it is."""
    if isinstance(job.result, api.Opened):
        return sessions.opened(job.result)
    if isinstance(job.result, api.Evaluated):
        return kernels.evaluated(job.result)
    if isinstance(job.result, api.Tuned):
        return tuning.tuned(job.result)
    if isinstance(job.result, api.Compared):
        return comparisons.compared(job.result)
    if isinstance(job.result, api.Finished):
        return sessions.finished(job.result)
    return rest.running(job)


def _common(job: api.Job, phrase: Phrase) -> dict[str, Any]:
    return {
        **said(phrase, job.left),
        "state": job.state,
        "job_id": job.id,
        "session_id": job.session_id,
        "eta_s": job.eta_s,
    }


def _evaluated(job: api.Job) -> dict[str, Any]:
    result = job.result
    if isinstance(result, api.Compared | api.Tuned):
        return {"result": to_json(result)}
    if not isinstance(result, api.Evaluated):
        return {}
    return {
        "node_id": result.node.id if result.node else "",
        "evaluation_id": result.evaluation.id,
        "status": result.evaluation.status,
        "fitness": result.evaluation.fitness,
        "result": to_json(result),
    }
