"""The stage `verify`: checks every case on every checking set."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ...types import Case, CaseResult, Signal
from ...wire.launches import Captured
from ..attribution import launched_kernels, own_work
from ..candidate_workers import LOAD_SECONDS, prepare
from ..correctness import oracle
from ..failures import Failure
from ..outcomes import Built, Verified
from ..processes import answers
from ..processes.worker import Worker
from ..stage_context import StageContext
from . import module_checks
from .case_check import CaseCheck, most_held_calls, unjudged_result


def verify(context: StageContext, built: Built) -> Verified:
    """Check every case on every checking set, in the worker that has loaded the candidate."""
    assert built.worker is not None
    verification = _Verification(context, built.worker)
    try:
        verification.run()
    except Failure as failure:
        return verification.outcome(failure)
    except Exception as error:
        shortage = context.starvation_failure("stage verify", built.worker, error)
        if shortage is None:
            raise
        return verification.outcome(shortage)
    return verification.outcome()


class _Verification:
    """The check of one candidate, with its findings so far."""

    def __init__(self, context: StageContext, worker: Worker) -> None:
        self._context, self._worker = context, worker
        self._results: dict[str, CaseResult] = {}
        self._signals: list[Signal] = []
        self._library: Counter[str] = Counter()
        self._configurations: dict[str, Any] = {}
        self._launches, self._called = 0, dict[str, dict[str, int]]()
        self._kernels: list[Captured] = []

    def run(self) -> None:
        """Check all cases. Raises Failure."""
        context, worker, slots = self._context, self._worker, None
        for number, case in enumerate(context.cases):
            fraction = 0.15 + 0.25 * number / len(context.cases)
            context.tell("verify", f"case {case.name}", fraction)
            pool = context.task.pool(case.name)
            calls = most_held_calls(context, pool)
            slots = prepare(context, worker, pool, calls, slots)
            check = CaseCheck(context, case, pool, worker, slots)
            self._case(check)
            check.drop(case.name)
            if context.confirming:
                pool.release(checking=True)
        if not context.ablating:
            module_checks.check_shared_instances(context, worker)
            module_checks.check_different_instances(context, worker)
        self._count()

    def outcome(self, failure: Failure | None = None) -> Verified:
        """Return the outcome as far as the check came."""
        pools, cases = self._context.task.pools, self._context.cases
        data = {
            "families": {c.name: pools[c.name].families for c in cases if c.name in pools},
            "library": dict(self._library),
            "configurations": self._configurations,
        }
        return Verified(
            {} if failure else data,
            self._signals,
            self._results,
            failure,
            self._launches,
            self._called,
            self._kernels,
        )

    def _case(self, check: CaseCheck) -> None:
        case = check.case
        try:
            self._results[case.name] = check.result()
            if not self._context.ablating:
                module_checks.check_places(check)
                module_checks.check_streams(check)
                module_checks.check_manners(check)
                module_checks.check_settings(check)
                module_checks.check_state(check)
                module_checks.check_two_instances(check)
                module_checks.check_without_gradients(check)
        except Failure as failure:
            if not self._context.ablating or failure.status != "incorrect":
                if failure.wrong is not None:
                    self._results[case.name] = _wrong_result(case, failure.wrong[1])
                raise
            self._results[case.name] = replace(unjudged_result(case), detail=failure.message)
            self._signals += failure.signals
        finally:
            self._library.update(check.library)
            if check.configurations:
                self._configurations[case.name] = check.configurations
        if self._results[case.name].correct and check.mismatches.special:
            text = f"case {case.name}: {check.mismatches.special}"
            self._signals.append(Signal("special_values", text))

    def _count(self) -> None:
        """Count launches and operators as the candidate's process reports them. Raises Failure
        where the policy refuses the result."""
        context, worker = self._context, self._worker
        reply = context.guard(
            "counting launches",
            worker,
            lambda: worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="count"),
        )
        self._launches, self._called = reply.values[0], answers.read_calls(worker.data(reply))
        if any(b.ok and not b.on_host for b in context.builds.records):
            self._kernels, _ = launched_kernels.collect(context, worker, LOAD_SECONDS)
        policy = context.request.policy
        signals = own_work.policy_signals(policy, self._launches, self._library)
        own_work.refuse(policy, signals)
        self._signals += signals


def _wrong_result(case: Case, finding: oracle.Finding) -> CaseResult:
    return replace(
        unjudged_result(case),
        error=_finite(finding.error),
        framework_error=finding.framework_error,
        tolerance=finding.limit,
        detail=finding.detail,
    )


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
