"""The stage `verify`: every case on every checking set."""

from __future__ import annotations

from typing import Any

from ..types import Case, CaseResult, Signal
from . import bursts, configurations, oracle, works
from .failures import Failure
from .pool import CasePool, InputSet
from .processes import Worker
from .run import LOAD_SECONDS, Run, call_seconds, prepare, set_state


def verify(run: Run) -> dict[str, Any]:
    worker = run.loaded
    assert worker is not None
    for number, case in enumerate(run.cases):
        run.tell("verify", f"case {case.name}", 0.15 + 0.25 * number / len(run.cases))
        pool = run.task.pool(case.name)
        slots = prepare(run, worker, pool, bursts.CHECK_CALLS)
        run.results[case.name] = _check_case(run, case, pool, worker, slots)
        if run.place.worker == "interpreted":
            configurations.check(run, case, pool, worker, slots, _judge_call)
        run.guard(f"case {case.name}", worker, lambda name=case.name: worker.ask("drop", seconds=LOAD_SECONDS, key=name))  # type: ignore[misc]
    counted = run.guard("counting launches", worker, lambda: worker.ask("works", seconds=LOAD_SECONDS, mode="count"))
    run.launches = counted.values[0]
    works.police(run)
    families = {c.name: run.task.pools[c.name].families for c in run.cases}
    return {"families": families, "library": run.library, "configurations": run.configurations}


def _check_case(run: Run, case: Case, pool: CasePool, worker: Worker, slots: bursts.Slots) -> CaseResult:
    """Every checking set: two at a time and the first again, so that held, stale and unstable outputs show."""
    seconds = max(run.place.patience_s, call_seconds(case, bursts.CHECK_CALLS))
    bitwise = "bitwise" in (run.facts.tolerance, run.request.policy.tolerance)
    findings: list[oracle.Finding] = []
    reproducible = True
    for state in dict.fromkeys(s for s, _ in pool.checking):
        sets = [held for s, held in pool.checking if s == state]
        where = f"case {case.name}" + (", after the parameters changed" if state else "")
        run.guard(where, worker, lambda s=state: set_state(worker, pool, s))  # type: ignore[misc]
        for start in range(0, len(sets), 2):
            pair = sets[start : start + 2]
            order = [0, len(pair) - 1, 0]
            first = not findings
            result = run.guard(
                where,
                worker,
                lambda p=pair, o=order, r=first: bursts.run(worker, case.name, p, o, seconds, record=r),  # type: ignore[misc]
            )
            works.note_library(run, result.data)
            outputs = [slots.tensors(pool.outputs, index) for index in range(bursts.CHECK_CALLS)]
            again = all(oracle.same_bits(a, b) for a, b in zip(outputs[0], outputs[2], strict=True))
            reproducible &= again
            judged = (0, 1) if len(pair) == 2 else (0,)
            for index in judged if again else (0, 1, 2):
                findings += _judge_call(run, case, pool, outputs[index], pair[order[index]], where, bitwise, repeated=index == 2)
    worst = max(findings, key=lambda f: f.error / max(f.limit, 1e-300))
    return CaseResult(
        name=case.name,
        weight=case.weight,
        protected=case.protected,
        held_out=case.held_out,
        correct=True,
        error=worst.error,
        framework_error=worst.framework_error,
        tolerance=worst.limit,
        bitwise_equal_to_eager=all(f.bitwise_equal for f in findings),
        bitwise_reproducible=reproducible,
    )


def _judge_call(
    run: Run, case: Case, pool: CasePool, outputs: list[Any], held: InputSet, where: str, bitwise: bool, repeated: bool
) -> list[oracle.Finding]:
    found = []
    for number, own in enumerate(outputs):
        finding = oracle.compare(
            own, held.expected[number], held.allowed[number], pool.reduction, held.framework[number], bitwise
        )
        if finding.signal is not None:
            name = finding.signal
            if where.endswith("changed") and name.startswith("wrong."):
                name = "wrong.stale_parameters"
            elif repeated and name == "wrong.values":
                name = "wrong.race"
            text = f"{where}, {held.family} inputs, output {number}: {finding.detail}"
            if finding.error:
                text += f" (error {finding.error:.2e}, allowed {finding.limit:.2e}, the framework's own {finding.framework_error:.2e})"
            run.results[case.name] = CaseResult(
                case.name, case.weight, case.protected, case.held_out, False,
                _finite(finding.error), finding.framework_error, finding.limit, finding.detail,
            )  # fmt: skip
            raise Failure("incorrect", text, (Signal(name, text),))
        found.append(finding)
    return found


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
