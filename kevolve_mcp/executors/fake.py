"""An executor without a judge: deterministic answers scripted by markers in the texts, for tests of
the floors above.

Markers are comment lines `# fake: NAME=VALUE`, in a candidate:

* `status=incorrect` (any status), `signals=memory_bound,not_vectorized`
* `speedup=1.8` (otherwise drawn from a hash, 0.8 to 1.6), scaled by PARAMS where the source has
  some
* `confirm=incorrect`: the status that only the purposes "confirm" and "export" find
* `compared=1.4`: the speed-up that only a comparison finds; `beside=crashed`: the status
* `noise=0.4`: half the width of its interval as a part of the speed-up, with the usual processes
* `seconds=0.2`: how long one evaluation takes; `unavailable=2`: how many evaluations fail first;
  `lasting=2`: how many succeed before all fail

and in a task: `refused=REASON`, `cases=small,large`, `operators=aten.mul,aten.add`, `seconds=0.2`,
`held_out=edge`, `imports=helper.py` (of its folder), `rows=4` (of what it computes on).
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import anyio

from harness.types import (
    ISOLATION_LEVELS,
    STAGES,
    Candidate,
    CandidateError,
    Case,
    CaseDuel,
    CaseResult,
    Ceilings,
    ComparisonRequest,
    Duel,
    Environment,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Interpreter,
    IsolationLevel,
    MachineReport,
    Mode,
    Samples,
    Signal,
    Stage,
    StageReport,
    Status,
    TargetReport,
    Task,
    TensorSpec,
    Verdict,
    eligible,
    fitness,
    task_digest,
    to_json,
)
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable

from .base import Executor, Progress, ProgressEvent

_FAMILIES = ("cpu",)  # of the targets that it pretends to have
ENVIRONMENT = Environment("cpu:fake", "fake 1", "namespaces", "fresh", 1)
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


class FakeExecutor(Executor):
    """`started`, `evaluated` and `cancelled` hold candidate digests in the order of events, for
    assertions. Shared by nobody: two executors answer alike because the texts decide. mode: of the
    target cpu; isolation: the strongest level there is."""

    def __init__(self, mode: Mode = "execute", isolation: IsolationLevel = "namespaces") -> None:
        self.mode = mode
        self.environment = replace(ENVIRONMENT, isolation=isolation)
        self.started: list[str] = []
        self.evaluated: list[str] = []
        self.cancelled: list[str] = []
        self.opened: list[str] = []
        self.fresh = 0  # openings that were asked to remember nothing
        self.tasks: list[Task] = []
        self.requests: list[EvaluationRequest] = []
        self.compared: list[ComparisonRequest] = []
        self._failures: Counter[str] = Counter()
        self._closed = False

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        self._check_open()
        executes = self.mode == "execute"
        targets = (
            TargetReport(
                "cpu",
                "execute" if executes else "absent",
                "" if executes else "switched off",
                ("cpp",),
                ("bandwidth",),
            ),
            TargetReport("cuda", "absent", "no NVIDIA driver answered"),
        )
        measured = (
            Ceilings({"memory": 1e10}, {"memory": 5e9}, {"float32": 1e11}, {"memory": 1 << 30})
            if ceilings
            else None
        )
        return MachineReport(
            self.environment, targets, _isolation(self.environment.isolation), measured
        )

    async def open_task(
        self,
        source: str,
        path: str,
        target: str,
        *,
        timed: bool = True,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> Task:
        self._check_open()
        markers = _markers(source)
        if target.split(":")[0] not in _FAMILIES:
            raise Unavailable(f"no device for target {target}", "Choose cpu.")
        if "refused" in markers:
            raise TaskRefused(markers["refused"], "Fix the task file.")
        if "class Model" not in source and "def reference" not in source:
            raise TaskRefused(
                "the task defines neither class Model nor reference(*inputs)", "Add one of them."
            )
        _tell(progress, "open", "importing the reference", 0.1)
        await anyio.sleep(float(markers.get("seconds", 0)))
        _tell(progress, "open", "timing baselines", 0.9)
        companion = Path(path).with_name(f"{Path(path).stem}.heldout.py") if path else None
        imported = [Path(path).with_name(name) for name in _words(markers.get("imports", ""))]
        neighbours = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in imported}
        digest = task_digest(
            source, companion.read_text() if companion and companion.is_file() else "", neighbours
        )
        self.opened.append(digest)
        self.fresh += fresh
        name = re.sub(r"\W+", "_", path.rsplit("/", 1)[-1].removesuffix(".py")) or "task"
        if name == "task" and path.count("/") > 1:
            name = path.split("/")[-2]
        held_out = _words(markers.get("held_out", ""))
        rows = int(markers.get("rows", "4"))
        cases = tuple(_case(n, rows) for n in _words(markers.get("cases", "default")))
        return Task(
            name=markers.get("name", name),
            digest=digest,
            source=source,
            path=path,
            cases=(*cases, *(replace(_case(n, rows), held_out=True) for n in held_out)),
            baselines=("eager", "compile"),
            operators=dict.fromkeys(_words(markers.get("operators", "aten.mul.Tensor")), 1),
            neighbours=neighbours,
        )

    async def evaluate(
        self,
        task: Task,
        request: EvaluationRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        self._check_open()
        candidate = request.candidate
        markers = _markers(candidate.source)
        self.started.append(candidate.digest)
        self.requests.append(request)
        self.tasks.append(task)
        seconds = float(markers.get("seconds", 0))
        try:
            for step, stage in enumerate(STAGES):
                _tell(progress, stage, f"{stage} of {candidate.digest[:8]}", step / len(STAGES))
                await anyio.sleep(seconds / len(STAGES))
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(candidate.digest)
            raise
        if self._failures[candidate.digest] < int(markers.get("unavailable", 0)):
            self._failures[candidate.digest] += 1
            raise EvaluatorUnavailable("the fake judge was told to fail", "Try again.")
        if self.evaluated.count(candidate.digest) >= int(markers.get("lasting", sys.maxsize)):
            raise EvaluatorUnavailable("the fake judge was told to fail from now on", "Try again.")
        self.evaluated.append(candidate.digest)
        return replace(
            _evaluation(task, request, target, markers, seconds), environment=self.environment
        )

    async def compare(
        self,
        task: Task,
        request: ComparisonRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> HeadToHead:
        self._check_open()
        self.compared.append(request)
        found = [
            await self.evaluate(task, request.single(c), target, progress=progress)
            for c in request.candidates
        ]
        duels = [
            _duel(i, j, found)
            for i in range(len(found))
            for j in range(i)
            if found[i].fitness and found[j].fitness
        ]
        return HeadToHead(tuple(found), tuple(duels), 3, sum(e.seconds for e in found))

    async def interpreters(self) -> tuple[Interpreter, ...]:
        self._check_open()
        return (Interpreter(sys.executable, "this program", True, "needs nothing", "3", "", ""),)

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise EvaluatorUnavailable("the executor is closed", "Open another one.")


def _isolation(level: str) -> dict[str, str]:
    """The level and the weaker ones are available, the stronger ones not."""
    here = ISOLATION_LEVELS.index(level)
    return {
        name: "available" if place >= here else "not here"
        for place, name in enumerate(ISOLATION_LEVELS)
    }


def _evaluation(
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
    samples = _samples(request, [c.name for c in shown], speedup)
    noise = float(markers.get("noise", 0.01))
    cases = (
        tuple(_result(c, speedup, timed, samples.processes, noise) for c in shown)
        if verified
        else ()
    )
    if request.purpose == "ablation":
        cases = tuple(replace(c, correct=right, verdict=None) for c in cases)
    names = (
        _words(markers.get("signals", "memory_bound" if timed else ""))
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
        message="every case agrees" if status == "correct" else f"the fake judge found it {status}",
        policy=str(request.policy),
        environment=ENVIRONMENT,
        signals=tuple(Signal(n, f"{n} was scripted") for n in names),
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
        stages=_stages(request, status, samples),
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
    request: EvaluationRequest, status: Status, samples: Samples
) -> tuple[StageReport, ...]:
    reports: list[StageReport] = []
    for stage in STAGES[: STAGES.index(request.through) + 1]:
        failed = status != "correct" and stage == _FAILED_STAGE.get(status, "verify")
        data = (
            {"samples": to_json(samples)}
            if stage == "time" and not failed and request.purpose == "search"
            else {}
        )
        reports.append(
            StageReport(stage, not failed, 0.0, status if failed else "", f"log of {stage}\n", data)
        )
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
        case.name, case.weight, case.protected, case.held_out, True, 1e-7, 1e-7, 1e-6
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
        pairs=processes,
        allocation="fresh",
        naive_speedup=3 * speedup,
    )


def _case(name: str, rows: int) -> Case:
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


def _duel(first: int, second: int, found: list[Evaluation]) -> Duel:
    """As the speed-ups say, exact to 1 %."""
    pairs = zip(found[first].cases, found[second].cases, strict=True)
    cases = [(own.name, (own.speedup or 1.0) / (other.speedup or 1.0)) for own, other in pairs]
    each = tuple(CaseDuel(name, r, (r * 0.99, r * 1.01), _verdict(r), 3) for name, r in cases)
    ratio = (found[first].fitness or 1.0) / (found[second].fitness or 1.0)
    return Duel(first, second, ratio, (ratio * 0.99, ratio * 1.01), _verdict(ratio), each)


def _verdict(ratio: float) -> Verdict:
    return "faster" if ratio > 1.03 else "slower" if ratio < 0.97 else "equivalent"


def _markers(source: str) -> dict[str, str]:
    return dict(_MARKER.findall(source))


def _words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]


def _tell(progress: Progress | None, stage: str, message: str, fraction: float) -> None:
    if progress is not None:
        progress(ProgressEvent(stage, message, fraction))
