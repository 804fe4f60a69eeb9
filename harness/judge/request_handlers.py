"""The judge's operations: describe the machine, open a task, evaluate a candidate, compare
several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from ..targets import DeviceFamily, cpu
from ..types import (
    STAGES,
    ComparisonRequest,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Target,
    Task,
    from_json,
    to_json,
)
from .availability import (
    COMPILE_HINT,
    CapabilityMissing,
    find_compiler,
    find_family,
    find_level,
    find_place,
)
from .device.health import Health
from .device.machine import Machine
from .errors import CancelToken
from .evaluation import compile_only, head_to_head, pipeline
from .idle import Idle
from .open_tasks import OpenTasks, draw_missing, open_key
from .stage_context import begin
from .tasks.open_task import Tell
from .tasks.opening_cache import OpeningCache
from .tasks.task_workers import TaskText

FRESH = ("confirm", "export")  # fresh seeds and processes, used once


class RequestHandlers:
    """One method for each operation, with its name. Arguments are the request, a function for
    progress reports, and the cancel token; the result consists of JSON values."""

    def __init__(self, machine: Machine, tasks: OpenTasks, cache: OpeningCache, idle: Idle) -> None:
        self._machine, self._tasks, self._cache, self._idle = machine, tasks, cache, idle
        self._health = Health(machine)

    def describe(self, message: dict[str, Any], tell: Tell, token: CancelToken) -> Any:
        """Describe the machine, with its measured ceilings if the request asks for them."""
        ceilings = bool(message.get("ceilings"))
        return to_json(self._machine.report(ceilings=ceilings, cancel=token))

    def open_task(self, message: dict[str, Any], tell: Tell, token: CancelToken) -> Any:
        """Open a task, or answer with its remembered opening."""
        target = Target.parse(message["target"])
        source, path = message["source"], message["path"]
        if self._machine.only_compiles(target):
            handle, task = self._tasks.start(
                source, path, tell, token, cpu, timed=False, checked=False
            )
            self._tasks.keep(open_key(cpu, task), handle)
            return to_json(task)
        family, timed = find_family(target), bool(message.get("timed", True))
        if not message.get("fresh"):
            text = TaskText.of(source, path)
            entry = self._cache.find(family, text, timed=timed)
            if entry.task is not None:
                tell(
                    "open",
                    f"known on this machine since {entry.note}: neither examined nor timed again",
                    1.0,
                )
                # evaluations from now on get new inputs
                self._tasks.close(open_key(family, entry.task))
                self._machine.expect_task(family, text.folder, compiles=timed)
                if timed:  # a search begins
                    self._idle.plan(partial(self._prepare, entry.task, family), entry.task.digest)
                return to_json(entry.task)
            if entry.note:
                tell("open", f"the remembered opening of this task is not used: {entry.note}", 0.0)
        handle, task = self._tasks.start(source, path, tell, token, family, timed=timed)
        self._tasks.keep(open_key(family, task), handle)
        if handle.disturbance:
            tell(
                "open",
                f"remembered for an hour only: while baselines were timed, {handle.disturbance}",
                1.0,
            )
        if problem := self._cache.keep(
            family, handle.text, task, timed=timed, disturbed=bool(handle.disturbance)
        ):
            tell("open", f"this opening will not be remembered: {problem}", 1.0)
        return to_json(task)

    def evaluate(self, message: dict[str, Any], tell: Tell, token: CancelToken) -> Any:
        """Evaluate one candidate, with fresh inputs and processes if its purpose requires them."""
        target = Target.parse(message["target"])
        task = from_json(Task, message["task"])
        request = from_json(EvaluationRequest, message["request"])
        level = find_level(self._machine, request.candidate.language, request.policy)
        if self._machine.only_compiles(target) or (
            request.through == "build" and self._machine.architecture(target, request)
        ):
            if request.through != "build":
                raise CapabilityMissing(
                    f"this machine can only compile for target {target}", COMPILE_HINT
                )
            compiler = find_compiler(self._machine, target, request.candidate.language)
            handle = self._tasks.get(task, tell, token, cpu, checked=False)
            return to_json(
                compile_only.evaluate(
                    begin(self._machine, compiler, handle, task, request, level, tell, token)
                )
            )
        family = find_family(target)
        place = find_place(self._machine, family, target, task, request)
        timed = place.mode == "execute" and STAGES.index(request.through) >= STAGES.index("time")
        if request.purpose in FRESH:
            # the task of a search holds much memory; it is reopened if the search continues
            self._tasks.close_all()
            # fresh inputs are used once, so the evaluation cannot be repeated after a disturbance
            self._machine.reaper.wait()
            handle, fresh = self._tasks.reopen(task, tell, token, family, timed_later=timed)
            known_cases = {c.name: c for c in task.cases}
            cases = tuple(c if c.held_out else known_cases.get(c.name, c) for c in fresh.cases)
            judged = replace(fresh, cases=cases, name=task.name)
        else:
            handle, judged = self._tasks.get(task, tell, token, family, timed_later=timed), task
            if request.through != "build":
                draw_missing(
                    handle,
                    [c for c in task.visible_cases if not request.cases or c.name in request.cases],
                    tell,
                )

        def evaluate() -> Evaluation:
            return pipeline.evaluate(
                begin(self._machine, place, handle, judged, request, level, tell, token)
            )

        try:
            return to_json(self._health.judge(family, evaluate))
        finally:
            if judged is not task:
                handle.close()

    def compare(self, message: dict[str, Any], tell: Tell, token: CancelToken) -> Any:
        """Compare several candidates in the same rounds."""
        target, task = Target.parse(message["target"]), from_json(Task, message["task"])
        request = from_json(ComparisonRequest, message["request"])
        level = find_level(self._machine, request.candidates[0].language, request.policy)
        if self._machine.only_compiles(target):
            raise CapabilityMissing(
                f"this machine can only compile for target {target}, so nothing is timed",
                COMPILE_HINT,
            )
        family = find_family(target)
        singles = [request.single(candidate) for candidate in request.candidates]
        places = [find_place(self._machine, family, target, task, single) for single in singles]
        if places[0].mode != "execute":
            raise CapabilityMissing(
                f"nothing is timed on this machine: {places[0].note}",
                "Compare the candidates on their device.",
            )
        handle = self._tasks.get(task, tell, token, family, timed_later=True)
        draw_missing(
            handle,
            [c for c in task.visible_cases if not request.cases or c.name in request.cases],
            tell,
        )

        def compare() -> HeadToHead:
            contexts = [
                begin(self._machine, place, handle, task, single, level, tell, token)
                for place, single in zip(places, singles, strict=True)
            ]
            return head_to_head.compare(contexts, request.effort)

        return to_json(self._health.judge(family, compare))

    def _prepare(self, task: Task, family: DeviceFamily, token: CancelToken) -> Iterator[None]:
        """Open a task and draw its checking sets, one case per step."""
        try:
            handle = self._tasks.get(task, _ignore, token, family, timed_later=True)
            for case in task.visible_cases:
                yield
                handle.worker.cancel = token
                handle.pool(case.name)
                handle.worker.cancel = None
        except Exception:
            self._tasks.close(open_key(family, task))
            raise


def _ignore(stage: str, text: str, fraction: float) -> None:
    """Report no progress: no request is waiting."""
