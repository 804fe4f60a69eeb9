"""An executor without a judge, for tests of the floors above: deterministic answers, scripted by
markers in the texts.

Markers are comment lines `# fake: NAME=VALUE`, in a candidate:

* `status=incorrect` (any status), `signals=memory_bound,not_vectorized`
* `speedup=1.8` (otherwise drawn from a hash, 0.8 to 1.6), scaled by PARAMS where the source has
  some
* `message=boom\\n# boo`: what its evaluation, signals and failed stage say and its log holds,
  "\\n" for a line break
* `confirm=incorrect`: the status that only the purposes "confirm" and "export" find
* `wrong=edge`: the case in which an incorrect one is wrong, named with numbers
* `compared=1.4`: the speed-up that only a comparison finds; `beside=crashed`: the status that only
  a comparison finds; `open=1`: the clock leaves the verdict of its comparisons open
* `called=1.05`, `dispatch=6.5`: the speed-up of its package as a user calls it, and microseconds
  that finding the kernel takes there
* `noise=0.4`: half the width of its interval as a part of the speed-up, with the usual processes
* `seconds=0.2`: how long one evaluation takes; `unavailable=2`: how many evaluations fail first;
  `lasting=2`: how many succeed before all fail

and in a task: `refused=REASON`, `cases=small,large`, `operators=aten.mul,aten.add`, `seconds=0.2`,
`held_out=edge`, `imports=helper.py` (of its folder), `rows=4` (of what it computes on).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import anyio

from harness.types import (
    STAGES,
    Ceilings,
    ComparisonRequest,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Interpreter,
    IsolationLevel,
    MachineReport,
    Mode,
    TargetReport,
    Task,
    task_digest,
)
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable

from . import scripted
from .base import Executor, Progress, ProgressEvent
from .naming import well_named

_FAMILIES = ("cpu",)  # of the targets that it pretends to have


class FakeExecutor(Executor):
    """A fake executor. `started`, `evaluated` and `cancelled` hold candidate digests in the order
    of events, for assertions. Two executors answer alike, since only the texts decide. mode: that
    of the target cpu; isolation: the strongest level available."""

    def __init__(self, mode: Mode = "execute", isolation: IsolationLevel = "namespaces") -> None:
        self.mode = mode
        self.environment = replace(scripted.ENVIRONMENT, isolation=isolation)
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
            Ceilings(
                {"memory": 1e10},
                {"memory": 5e9},
                {"float32": 1e11},
                {"memory": 1 << 30},
                streamed_bandwidth={"memory": 1.5e10},
                streamed_write_bandwidth={"memory": 1e10},
            )
            if ceilings
            else None
        )
        return MachineReport(
            self.environment,
            targets,
            scripted.isolation_levels(self.environment.isolation),
            measured,
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
        markers = scripted.markers_of(source)
        if target.split(":")[0] not in _FAMILIES:
            raise Unavailable(f"no device for target {target}", "Choose cpu.")
        if "refused" in markers:
            raise TaskRefused(scripted.lines(markers["refused"]), "Fix the task file.")
        if "class Model" not in source and "def reference" not in source:
            raise TaskRefused(
                "the task defines neither class Model nor reference(*inputs)", "Add one of them."
            )
        _tell(progress, "open", "importing the reference", 0.1)
        await anyio.sleep(float(markers.get("seconds", 0)))
        _tell(progress, "open", "timing baselines", 0.9)
        companion = Path(path).with_name(f"{Path(path).stem}.heldout.py") if path else None
        imported = [
            Path(path).with_name(name) for name in scripted.words(markers.get("imports", ""))
        ]
        neighbours = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in imported}
        digest = task_digest(
            source, companion.read_text() if companion and companion.is_file() else "", neighbours
        )
        self.opened.append(digest)
        self.fresh += fresh
        name = re.sub(r"\W+", "_", path.rsplit("/", 1)[-1].removesuffix(".py")) or "task"
        if name == "task" and path.count("/") > 1:
            name = path.split("/")[-2]
        held_out = scripted.words(scripted.lines(markers.get("held_out", "")))
        rows = int(markers.get("rows", "4"))
        cases = tuple(
            scripted.case_of(n, rows)
            for n in scripted.words(scripted.lines(markers.get("cases", "default")))
        )
        task = Task(
            name=markers.get("name", name),
            digest=digest,
            source=source,
            path=path,
            cases=(
                *cases,
                *(replace(scripted.case_of(n, rows), held_out=True) for n in held_out),
            ),
            baselines=("eager", "compile"),
            operators=dict.fromkeys(scripted.words(markers.get("operators", "aten.mul.Tensor")), 1),
            neighbours=neighbours,
        )
        return well_named(task)

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
        markers = scripted.markers_of(candidate.source)
        if request.purpose == "export":
            markers |= scripted.markers_of_package(candidate.source)
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
            scripted.evaluated(task, request, target, markers, seconds),
            environment=self.environment,
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
        evaluations = [
            await self.evaluate(task, request.single(c), target, progress=progress)
            for c in request.candidates
        ]
        open_ = ["open" in scripted.markers_of(c.source) for c in request.candidates]
        duels = [
            scripted.duel(i, j, evaluations, left_open=open_[i] or open_[j])
            for i in range(len(evaluations))
            for j in range(i)
            if evaluations[i].fitness and evaluations[j].fitness
        ]
        return HeadToHead(tuple(evaluations), tuple(duels), 3, sum(e.seconds for e in evaluations))

    async def interpreters(self) -> tuple[Interpreter, ...]:
        self._check_open()
        return (Interpreter(sys.executable, "this program", True, "needs nothing", "3", "", ""),)

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise EvaluatorUnavailable("the executor is closed", "Open another one.")


def _tell(progress: Progress | None, stage: str, message: str, fraction: float) -> None:
    if progress is not None:
        progress(ProgressEvent(stage, message, fraction))
