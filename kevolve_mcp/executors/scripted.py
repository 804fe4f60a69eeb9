"""Evaluations scripted by the markers of a text, for `fake`: equal texts give equal results."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import replace

from harness.types import (
    ISOLATION_LEVELS,
    STAGES,
    Candidate,
    CandidateError,
    Case,
    CaseDuel,
    CaseResult,
    Duel,
    Environment,
    Evaluation,
    EvaluationRequest,
    Samples,
    Signal,
    Stage,
    StageReport,
    Status,
    Task,
    TensorSpec,
    Verdict,
    eligible,
    fitness,
    to_json,
)

ENVIRONMENT = Environment("cpu:fake", "fake 1", "namespaces", "fresh", 1)
DISPATCH_US = 2.5  # of a package whose kernel has no marker for it
_OF_PACKAGES = ("called", "dispatch")
_MARKER = re.compile(r"^\s*#\s*fake:\s*(\w+)\s*=\s*(.+?)\s*$", re.MULTILINE)
_FAILED_STAGE: dict[str, Stage] = {
    "invalid": "build",
    "build_failed": "build",
    "reward_hack": "time",
    "needs_review": "time",
}
_SIGNALS: dict[str, str] = {
    "invalid": "policy.library_calls",
    "build_failed": "compile_error",
    "crashed": "crash.segmentation_fault",
    "timed_out": "timeout.run",
    "incorrect": "wrong.values",
    "reward_hack": "cheat.clock",
    "needs_review": "suspect.implausible_speed",
}


def isolation_levels(level: str) -> dict[str, str]:
    """Return which levels are available: the given one and weaker ones."""
    here = ISOLATION_LEVELS.index(level)
    return {
        name: "available" if place >= here else "not here"
        for place, name in enumerate(ISOLATION_LEVELS)
    }


def evaluated(
    task: Task, request: EvaluationRequest, target: str, markers: dict[str, str], seconds: float
) -> Evaluation:
    candidate, status = request.candidate, _status(request, markers)
    right = status in ("correct", "needs_review")
    ablated = request.purpose == "ablation" and status == "incorrect"
    timed = (right or ablated) and STAGES.index(request.through) >= STAGES.index("time")
    verified = (right or ablated) and STAGES.index(request.through) >= STAGES.index("verify")
    everything = request.purpose in ("confirm", "export")
    shown = [
        c
        for c in task.cases
        if (everything or not c.held_out) and (not request.cases or c.name in request.cases)
    ]
    speedup = _speedup(candidate, markers)
    if request.purpose == "compare":
        speedup = float(markers.get("compared", speedup))
    if request.purpose == "export":
        speedup = float(markers.get("called", speedup))
    samples = _samples(request, [c.name for c in shown], speedup)
    noise = float(markers.get("noise", 0.01))
    cases = (
        tuple(_result(c, speedup, timed, samples.processes, noise) for c in shown)
        if verified
        else ()
    )
    worded = lines(markers.get("message", ""))
    wrong = [c.name for c in shown if status == "incorrect" and c.name == markers.get("wrong")]
    if wrong:
        cases = _until_wrong(shown, wrong[0])
        worded = f"case {wrong[0]}: {cases[-1].detail}"
    usual = f"the fake judge found it {status}" if status != "correct" else "every case agrees"
    if request.purpose == "export":
        dispatch_us = float(markers.get("dispatch", DISPATCH_US))
        cases = tuple(replace(c, dispatch_us=dispatch_us) for c in cases)
    if request.purpose == "ablation":
        cases = tuple(replace(c, correct=right, verdict=None) for c in cases)
    signals = (
        words(markers.get("signals", "memory_bound" if timed else ""))
        if status == "correct"
        else [_SIGNALS[status]]
    )
    return Evaluation(
        candidate=candidate.digest,
        language=candidate.language,
        task=task.digest,
        target=target,
        purpose=request.purpose,
        status=status,
        message=worded or usual,
        policy=str(request.policy),
        environment=ENVIRONMENT,
        signals=tuple(Signal(n, worded or f"{n} was scripted") for n in signals),
        fitness=None
        if request.purpose == "ablation"
        else 0.0
        if status != "correct"
        else fitness(cases),
        eligible=timed
        and request.purpose != "ablation"
        and status == "correct"
        and eligible(cases),
        cases=cases,
        stages=_stages(request, status, samples, worded),
        through=request.through,
        seconds=seconds,
        device_seconds=seconds / 2,
    )


def _status(request: EvaluationRequest, markers: dict[str, str]) -> Status:
    later = request.purpose in ("confirm", "export")
    if request.purpose == "compare" and "beside" in markers:
        return markers["beside"]  # type: ignore[return-value]
    status = (
        markers.get("confirm", markers.get("status", "correct"))
        if later
        else markers.get("status", "correct")
    )
    try:
        request.candidate.params()
    except CandidateError:
        return "invalid"
    reached = STAGES.index(request.through) >= STAGES.index(_FAILED_STAGE.get(status, "verify"))
    return status if reached else "correct"  # type: ignore[return-value]


def _samples(request: EvaluationRequest, cases: list[str], speedup: float) -> Samples:
    """Those of before, and three processes with one round each for each unit of effort."""
    new = (((100.0, 100.0 / speedup),),) * round(3 * request.effort)
    rounds = {
        name: {"compile": (*request.earlier.rounds.get(name, {}).get("compile", ()), *new)}
        for name in cases
    }
    return Samples(rounds, request.earlier.baselines + 1)


def _stages(
    request: EvaluationRequest, status: Status, samples: Samples, worded: str
) -> tuple[StageReport, ...]:
    reports: list[StageReport] = []
    for stage in STAGES[: STAGES.index(request.through) + 1]:
        failed = status != "correct" and stage == _FAILED_STAGE.get(status, "verify")
        data = (
            {"samples": to_json(samples)}
            if stage == "time" and not failed and request.purpose == "search"
            else {}
        )
        message = (worded or status) if failed else ""
        log = f"log of {stage}\n{worded if failed else ''}"
        reports.append(StageReport(stage, not failed, 0.0, message, log, data))
        if failed:
            break
    return tuple(reports)


def _speedup(candidate: Candidate, markers: dict[str, str]) -> float:
    digest = hashlib.sha256(candidate.source.encode()).digest()
    base = float(markers["speedup"]) if "speedup" in markers else 0.8 + 0.8 * digest[0] / 255
    try:
        params = candidate.params()
    except CandidateError:
        return base
    drawn = hashlib.sha256(repr(sorted(params.items())).encode()).digest()[0]
    return base * (1 + 0.3 * drawn / 255) if params else base


def _result(case: Case, speedup: float, timed: bool, processes: int, noise: float) -> CaseResult:
    plain = CaseResult(
        case.name,
        case.weight,
        case.protected,
        case.held_out,
        True,
        1e-7,
        1e-7,
        1e-6,
        arguments=dict(case.arguments) if case.held_out else {},
    )
    if not timed:
        return plain
    half = noise * math.sqrt(3 / processes)
    verdict: Verdict = "faster" if speedup > 1.02 else "slower" if speedup < 0.98 else "equivalent"
    return replace(
        plain,
        speedup=speedup,
        interval=(speedup * (1 - half), speedup * (1 + half)),
        verdict=verdict,
        baseline="compile",
        baselines={"eager": 120.0, "compile": 100.0},
        latency_us=100.0 / speedup,
        roofline_fraction=min(1.0, 0.4 * speedup),
        ceiling="memory: inputs in L3, outputs in L3",
        pairs=processes,
        allocation="fresh",
        naive_speedup=3 * speedup,
    )


def case_of(name: str, rows: int) -> Case:
    spec = TensorSpec((rows, 8), "float32", (8, 1), 32 * rows)
    baselines = {"eager": 120.0, "compile": 100.0}
    return Case(
        name,
        inputs=(spec,),
        outputs=(spec,),
        bytes_min=64 * rows,
        bytes_written=32 * rows,
        baselines_us=baselines,
        roofline_time_us=40.0,
    )


def _until_wrong(cases: list[Case], wrong: str) -> tuple[CaseResult, ...]:
    """Those before the case that is wrong, and that one."""
    before = [_result(c, 1.0, False, 0, 0.0) for c in cases]
    place = [c.name for c in cases].index(wrong)
    last = replace(before[place], correct=False, error=0.5, detail="row 7 is off by 0.5")
    return (*before[:place], last)


def duel(first: int, second: int, evaluations: list[Evaluation], *, left_open: bool) -> Duel:
    """As the speed-ups say, exact to 1 %; without a verdict where it is left open."""
    pairs = zip(evaluations[first].cases, evaluations[second].cases, strict=True)
    cases = [(own.name, (own.speedup or 1.0) / (other.speedup or 1.0)) for own, other in pairs]
    ratio = (evaluations[first].fitness or 1.0) / (evaluations[second].fitness or 1.0)

    def verdict(ratio: float) -> Verdict:
        return "inconclusive" if left_open else _verdict(ratio)

    each = tuple(CaseDuel(name, r, (r * 0.99, r * 1.01), verdict(r), 3) for name, r in cases)
    return Duel(first, second, ratio, (ratio * 0.99, ratio * 1.01), verdict(ratio), each)


def _verdict(ratio: float) -> Verdict:
    return "faster" if ratio > 1.03 else "slower" if ratio < 0.97 else "equivalent"


def markers_of(source: str) -> dict[str, str]:
    return dict(_MARKER.findall(source))


def markers_of_package(source: str) -> dict[str, str]:
    """Those markers of a kernel that are about its package, which has the kernel as a literal."""
    markers = markers_of(source.replace("\\n", "\n"))
    return {name: markers[name] for name in _OF_PACKAGES if name in markers}


def lines(text: str) -> str:
    """Return the value of a marker with line breaks where it says \\n."""
    return text.replace("\\n", "\n")


def words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]
