"""Which case goes to the kernel: pure functions from the evaluation to dispatch.json and to
words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from harness.types import Case, CaseResult, Evaluation, Target, Task, to_json
from kevolve_mcp.quantities import times


@dataclass(frozen=True)
class Decision:
    """use: "kernel" or "reference". why: one phrase with the figures. tolerance: what its results
    may be off by, relative to their norm; None where nothing was verified."""

    case: Case
    use: str
    why: str
    tolerance: float | None = None


def decide(task: Task, evaluation: Evaluation) -> tuple[Decision, ...]:
    """The kernel where its verdict is "faster", or where it beats what would run in its place by
    more than the margin of the device: the reference, in eager mode, which is often slower than the
    compiled baseline that the verdict is about. Else the reference, untimed cases included."""
    results = {result.name: result for result in evaluation.cases}
    margin = Target.parse(evaluation.target).margin
    decisions = []
    for case in task.cases:
        result = results.get(case.name)
        decision = _decide(case, result, margin)
        decisions.append(replace(decision, tolerance=result.tolerance if result else None))
    return tuple(decisions)


def _decide(case: Case, result: CaseResult | None, margin: float) -> Decision:
    if result is not None and case.held_out and result.arguments != case.arguments:
        # as the evaluation had it: shapes that are drawn anew each time say nothing of others
        case = replace(case, arguments=result.arguments, inputs=())
        result = result if result.arguments else None
    if result is None or not result.correct:
        return Decision(case, "reference", "not verified in this evaluation")
    if result.verdict is None or result.speedup is None:
        return Decision(case, "reference", "verified, not timed")
    why = f"{result.verdict}: {speedup_text(result)}"
    if result.verdict == "faster":
        return Decision(case, "kernel", why)
    eager, own = result.baselines.get("eager"), result.latency_us
    if result.baseline != "eager" and eager and own and own * margin < eager:
        return Decision(
            case,
            "kernel",
            f"{why}; {eager / own:.2f}x over the reference, which would run in its place",
        )
    if result.baseline == "eager" and result.interval is not None and result.interval[0] > margin:
        return Decision(
            case,
            "kernel",
            f"{why}, the whole interval above the reference, which would run in its place",
        )
    return Decision(case, "reference", why)


def speedup_text(result: CaseResult) -> str:
    """ "1.82x [1.79, 1.86] over torch.compile", "-" where nothing was timed."""
    if result.speedup is None:
        return "-"
    over = f" over {result.baseline}" if result.baseline else ""
    return f"{times(result.speedup, result.interval)}{over}"


def torch_device(target: str) -> str:
    """torch's device type for a target; HIP devices are called cuda there."""
    return "cpu" if Target.parse(target).on_host else "cuda"


def dispatch_data(
    decisions: tuple[Decision, ...], *, operator: str, device: str, gradients: bool
) -> dict[str, Any]:
    """The content of dispatch.json, which the package's code reads."""
    return {
        "operator": operator,
        "device": device,
        "gradients": gradients,
        "cases": [
            {
                "name": d.case.name,
                "use": d.use,
                "why": d.why,
                "held_out": d.case.held_out,
                "tolerance": d.tolerance,
                "arguments": to_json(d.case.arguments),
                "inputs": [
                    {"shape": list(s.shape), "dtype": s.dtype, "stride": list(s.stride)}
                    for s in d.case.inputs
                ],
            }
            for d in decisions
        ],
    }
