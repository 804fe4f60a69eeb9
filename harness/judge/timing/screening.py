"""Cases with what their baselines take, as a screening found it."""

from __future__ import annotations

from ...types import Case
from ..stage_context import StageContext
from ..tasks import opening


class Screening:
    """The cases of one task: screened when it was opened, or measured here, once, at the moment
    somebody asks (held-out cases, a task opened for a check)."""

    def __init__(self, context: StageContext) -> None:
        self._task, self._tell = context.task, context.tell
        self._measured: dict[str, Case] = {}

    def of(self, case: Case) -> Case:
        """The case with its baselines' microseconds."""
        if case.baselines_us:
            return case
        if case.name not in self._measured:
            self._task.pool(case.name)
            described = opening.learn_case(self._task, case)
            self._measured[case.name] = opening.measure(self._task, described, self._tell, 0.4)
        return self._measured[case.name]
