"""The progress of one evaluation, and the resources that it has to close."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...types import CaseResult, Signal, Stage, StageReport
from ..candidate_workers import keep_compiled
from ..failures import Failure
from ..outcomes import Outcome
from ..processes.worker import Worker
from ..stage_context import StageContext

StageOutcome = TypeVar("StageOutcome", bound=Outcome)


@dataclass(frozen=True)
class Progress:
    """The combined outcomes of the stages so far."""

    reports: tuple[StageReport, ...] = ()
    signals: tuple[Signal, ...] = ()
    results: Mapping[str, CaseResult] = field(default_factory=dict)
    failure: Failure | None = None

    def stage(
        self, stage: Stage, step: Callable[[], StageOutcome]
    ) -> tuple[Progress, StageOutcome]:
        """Run another stage."""
        begun = time.monotonic()
        outcome = step()
        return self.after(stage, outcome, time.monotonic() - begun), outcome

    def after(self, stage: Stage, outcome: Outcome, seconds: float) -> Progress:
        """Return the progress with the outcome of another stage."""
        failed = outcome.failure
        report = StageReport(
            stage,
            failed is None,
            seconds,
            failed.message if failed else "",
            failed.log if failed else "",
            dict(outcome.data),
        )
        return Progress(
            (*self.reports, report),
            (*self.signals, *outcome.signals),
            outcome.results or self.results,
            failed,
        )

    def with_built(self, data: Mapping[str, Any]) -> Progress:
        """Return the progress with more data in the report of the first stage."""
        first = self.reports[0]
        return replace(
            self, reports=(replace(first, data={**first.data, **data}), *self.reports[1:])
        )


class Holdings:
    """The resources that one evaluation has to close: its builds, the worker that has loaded the
    candidate, and the descriptor of what the worker has compiled."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._worker: Worker | None = None
        self._compiled: int | None = None

    def hold(self, worker: Worker | None) -> None:
        """Take over a worker."""
        self._worker = worker

    def hand_on(self) -> StageContext:
        """Return the context of the stages after checking, which do not need the worker. Raises
        Failure."""
        if self._worker is not None:
            self._compiled = keep_compiled(self._context, self._worker)
            self.let_go()
        return replace(self._context, compiled=self._compiled)

    def let_go(self) -> None:
        """End the worker without waiting for it. What it has built is analysed by then, so that
        nothing works beside what is timed next."""
        self._context.builds.analyses()
        worker, self._worker = self._worker, None
        if worker is not None:
            self._context.machine.reaper.add(worker)

    def close(self) -> None:
        """Close everything at once."""
        if self._worker is not None:
            self._worker.close()
        if self._compiled is not None:
            os.close(self._compiled)
        self._context.builds.close()
