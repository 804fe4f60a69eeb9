"""An evaluator that fails says nothing about the candidate: it is asked again, twice."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from kevolve_mcp.errors import EvaluatorUnavailable

from .base import Progress, ProgressEvent

T = TypeVar("T")
RETRIES = 2
PAUSE_S = 0.2  # before the first retry, doubled for the second

log = logging.getLogger(__name__)


async def tried(ask: Callable[[], Awaitable[T]], progress: Progress) -> T:
    """Ask, and ask again where the evaluator failed.

    Args:
        ask: One call of an executor.
        progress: Is told of a failure that is followed by another call.

    Raises:
        EvaluatorUnavailable: Of the call after the second retry.
    """
    for attempt in range(RETRIES):
        try:
            return await ask()
        except EvaluatorUnavailable as error:
            log.warning("the evaluator failed (%s); trying again", error)
            said = f"the evaluator failed, trying again: {error.message}"
            progress(ProgressEvent("queue", said, 0.0))
        await anyio.sleep(PAUSE_S * 2**attempt)
    return await ask()
