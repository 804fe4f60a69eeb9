"""The judge process: JSON lines on stdin and stdout. It imports neither task nor candidate, and
ends when stdin closes.

Requests: {"id", "op": "describe" | "open_task" | "evaluate" | "compare", ...} and {"op": "cancel",
"id"}. Requests run one after the other. Answers: {"id", "event": {"stage", "message", "fraction"}}
while it works, then {"id", "result"} or {"id", "error": {"kind": "task_refused" | "unavailable" |
"cancelled" | "failed", "message", "hint"}}.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import resource
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..languages import LANGUAGES
from ..targets import FAMILIES, DeviceFamily, cpu
from ..types import (
    STAGES,
    Case,
    ComparisonRequest,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    IsolationLevel,
    Policy,
    Target,
    Task,
    from_json,
    to_json,
)
from .device import host_memory
from .device.health import Health, Unwell
from .device.locks import LockBroken
from .device.machine import Machine
from .errors import Cancelled, CancelToken, TaskRefusedError, WorkerFailed
from .evaluation import compile_only, head_to_head, pipeline
from .exchange import device_link
from .failures import Unfit
from .idle import PAUSE_SECONDS, Idle
from .processes.runtimes import Place
from .stage_context import begin
from .tasks.opening import OpenTask, Tell, open_task
from .tasks.opening_cache import Remembered
from .tasks.task_workers import TaskText, differing

REFUSED_HINT = "Fix the task file and open it again."
MOST_DESCRIPTORS = 1 << 16
UNFIT_HINT = (
    "Verify it on a GPU (target cuda), verify a float32 or float16 version here, or only compile "
    "it for one (target cuda:sm_90)."
)
COMPILE_HINT = (
    "Compiling works for it. Float32 and float16 Triton kernels can be checked for target cpu, in "
    "Triton's interpreter; to measure, use a machine with that device."
)
FRESH = ("confirm", "export")  # fresh seeds and processes, used once
IDLE_SECONDS = 60.0  # without a request: then nothing is kept ready on a device
OPEN_TASKS = 2  # each holds a process and up to a few gigabytes of inputs
# of what a task may hold: where less is free, those that are held open are closed before another
# one is opened
ROOM_SHARE = 0.5


class Unavailable(Exception):
    """This machine lacks what the request needs."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Judge:
    """One worker thread does everything; the main thread reads requests and cancellations."""

    def __init__(self, cache: Path) -> None:
        self._machine = Machine(cache)
        self._machine.expect_first()
        self._remembered = Remembered(self._machine)
        self._health = Health(self._machine)
        self._idle = Idle()
        self._open: OrderedDict[str, OpenTask] = OrderedDict()
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._tokens: dict[int, CancelToken] = {}
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Until stdin closes; then end everything that was started, at once."""
        threading.Thread(target=self._work, daemon=True).start()
        for line in sys.stdin:
            message = json.loads(line)
            if message["op"] == "cancel":
                with self._lock:
                    token = self._tokens.get(message["id"])
                if token is not None:
                    token.cancel()
                continue
            with self._lock:
                self._tokens[message["id"]] = CancelToken()
            self._requests.put(message)
            searching = message["op"] == "compare" or (
                message["op"] == "evaluate" and message["request"]["purpose"] not in FRESH
            )
            self._idle.interrupt(message["task"]["digest"] if searching else "")
        self._idle.close()
        self._machine.close()
        os._exit(0)  # workers die with their parents

    def _work(self) -> None:
        while True:
            try:
                message = self._requests.get(
                    timeout=PAUSE_SECONDS if self._idle.planned else IDLE_SECONDS
                )
            except queue.Empty:
                if self._idle.planned:
                    self._idle.run(lambda: not self._requests.empty())
                    continue
                self._machine.prestarted.drop()
                self._machine.reaper.wait()
                continue
            number = message["id"]
            token = self._tokens[number]
            try:
                token.check()
                answer = {
                    "id": number,
                    "result": self._done(message, token),
                }
            except Cancelled:
                self._machine.reaper.wait()  # its processes are gone when the caller hears of it
                answer = _error(number, "cancelled", "cancelled", "")
            except TaskRefusedError as error:
                answer = _error(number, "task_refused", str(error), REFUSED_HINT)
            except Unavailable as error:
                answer = _error(number, "unavailable", str(error), error.hint)
            except Unfit as error:
                answer = _error(number, "unavailable", str(error), UNFIT_HINT)
            except Unwell as error:
                self._forget()
                answer = _error(number, "failed", str(error), error.hint)
            except LockBroken as error:
                answer = _error(
                    number, "failed", str(error), "Fix the lock file, then repeat the call."
                )
            except WorkerFailed as error:
                self._forget()
                # in a step that opening it does not take, such as a held-out case
                if error.kind == "task":
                    answer = _error(number, "task_refused", str(error), REFUSED_HINT)
                else:
                    answer = _failed(number, error)
            # the evaluator's own trouble: reported as such, never as a verdict
            except Exception as error:
                self._forget()
                answer = _failed(number, error)
            with self._lock:
                self._tokens.pop(number).close()
            _say(answer)

    def _done(self, message: dict[str, Any], token: CancelToken) -> Any:
        """What was asked for. Where the device has no memory left for the judge's own part: once
        more, with all other tasks closed. Raises TaskRefusedError where that is too little."""
        try:
            return getattr(self, f"_{message['op']}")(message, token)
        except Exception as error:
            if not device_link.is_want_of_memory(error):
                raise
            several, reason = len(self._open) > 1, str(error).splitlines()[0]
        self._free()  # not before: the traceback holds sets
        if several:
            return self._done(message, token)
        raise TaskRefusedError(
            f"the device's memory ran out while this was judged: {reason} Nothing of the task is "
            f"held any more, and {device_link.free_bytes() / 2**30:.1f} GiB are free now. Use "
            "smaller shapes, or a machine with more memory."
        )

    def _describe(self, message: dict[str, Any], token: CancelToken) -> Any:
        wanted = bool(message.get("ceilings"))
        return to_json(self._machine.report(ceilings=wanted, cancel=token))

    def _start_task(
        self,
        source: str,
        path: str,
        tell: Tell,
        token: CancelToken,
        family: DeviceFamily,
        **how: bool,
    ) -> tuple[OpenTask, Task]:
        """how: of `open_task`."""
        self._make_room(family)
        try:
            return open_task(self._machine, source, path, tell, token, family=family, **how)
        except TaskRefusedError as error:
            if not (self._open and error.for_memory):
                raise
        self._free()
        return open_task(self._machine, source, path, tell, token, family=family, **how)

    def _open_task(self, message: dict[str, Any], token: CancelToken) -> Any:
        target = Target.parse(message["target"])
        source, path, tell = message["source"], message["path"], _teller(message["id"])
        if self._machine.only_compiles(target):
            handle, task = self._start_task(
                source, path, tell, token, cpu, timed=False, checked=False
            )
            self._keep(_key(cpu, task), handle)
            return to_json(task)
        family, timed = _family(target), bool(message.get("timed", True))
        if not message.get("fresh"):
            text = TaskText.of(source, path)
            known = self._remembered.find(family, text, timed=timed)
            if known.task is not None:
                tell(
                    "open",
                    f"known on this machine since {known.said}: neither examined nor timed again",
                    1.0,
                )
                # what is evaluated now gets inputs of its own
                self._close(_key(family, known.task))
                self._machine.expect_task(family, text.folder, compiles=timed)
                if timed:  # a search begins
                    self._idle.plan(partial(self._prepared, known.task, family), known.task.digest)
                return to_json(known.task)
            if known.said:
                tell("open", f"what is remembered of this task is not used: {known.said}", 0.0)
        handle, task = self._start_task(source, path, tell, token, family, timed=timed)
        self._keep(_key(family, task), handle)
        if handle.disturbed:
            tell(
                "open",
                f"remembered for an hour only: while baselines were timed, {handle.disturbed}",
                1.0,
            )
        if problem := self._remembered.keep(
            family, handle.text, task, timed=timed, disturbed=bool(handle.disturbed)
        ):
            tell("open", f"this opening will not be remembered: {problem}", 1.0)
        return to_json(task)

    def _evaluate(self, message: dict[str, Any], token: CancelToken) -> Any:
        target = Target.parse(message["target"])
        task = from_json(Task, message["task"])
        request = from_json(EvaluationRequest, message["request"])
        level, tell = (
            self._level(request.candidate.language, request.policy),
            _teller(message["id"]),
        )
        if self._machine.only_compiles(target) or (
            request.through == "build" and self._machine.architecture(target, request)
        ):
            if request.through != "build":
                raise Unavailable(f"target {target} can only be compiled for here", COMPILE_HINT)
            compiler = self._compiler(target, request.candidate.language)
            opened = self._opened(task, tell, token, cpu, checked=False)
            return to_json(
                compile_only.evaluate(
                    begin(self._machine, compiler, opened, task, request, level, tell, token)
                )
            )
        family = _family(target)
        place = self._place(family, target, task, request)
        timed = place.mode == "execute" and STAGES.index(request.through) >= STAGES.index("time")
        if request.purpose in FRESH:
            # what is being searched holds much memory, and is opened anew if the search goes on
            self._forget()
            # what is drawn for it serves once: it cannot be judged again
            self._machine.reaper.wait()
            handle, fresh = self._again(task, tell, token, family, timed_later=timed)
            known_us = {c.name: c for c in task.cases}
            cases = tuple(c if c.held_out else known_us.get(c.name, c) for c in fresh.cases)
            judged = replace(fresh, cases=cases, name=task.name)
        else:
            handle, judged = self._opened(task, tell, token, family, timed_later=timed), task
            if request.through != "build":
                _draw(
                    handle,
                    [c for c in task.visible_cases if not request.cases or c.name in request.cases],
                    tell,
                )

        def evaluate() -> Evaluation:
            return pipeline.evaluate(
                begin(self._machine, place, handle, judged, request, level, tell, token)
            )

        try:
            return to_json(self._health.judged(family, evaluate))
        finally:
            if judged is not task:
                handle.close()

    def _compare(self, message: dict[str, Any], token: CancelToken) -> Any:
        target, task = Target.parse(message["target"]), from_json(Task, message["task"])
        request = from_json(ComparisonRequest, message["request"])
        level, tell = (
            self._level(request.candidates[0].language, request.policy),
            _teller(message["id"]),
        )
        if self._machine.only_compiles(target):
            raise Unavailable(
                f"target {target} can only be compiled for here, so nothing is timed", COMPILE_HINT
            )
        family, each = (
            _family(target),
            [request.single(candidate) for candidate in request.candidates],
        )
        places = [self._place(family, target, task, one) for one in each]
        if places[0].mode != "execute":
            raise Unavailable(
                f"nothing is timed here: {places[0].note}",
                "Compare them on the device that they are for.",
            )
        handle = self._opened(task, tell, token, family, timed_later=True)
        _draw(
            handle,
            [c for c in task.visible_cases if not request.cases or c.name in request.cases],
            tell,
        )

        def compare() -> HeadToHead:
            contexts = [
                begin(self._machine, place, handle, task, one, level, tell, token)
                for place, one in zip(places, each, strict=True)
            ]
            return head_to_head.compare(contexts, request.effort)

        return to_json(self._health.judged(family, compare))

    def _level(self, language: str, policy: Policy) -> IsolationLevel:
        """The isolation under which candidates run. Raises Unavailable where the policy or the
        language forbids it."""
        if language not in LANGUAGES:
            raise Unavailable(
                f"this evaluator has no language {language!r}",
                f"Languages here: {', '.join(LANGUAGES)}.",
            )
        level = self._machine.level
        if not policy.permits(level):
            raise Unavailable(
                f"the policy requires isolation {policy.isolation!r}, this machine offers "
                f"{level!r}",
                f"Levels here: {self._machine.isolation}. Allow a weaker one with "
                f"isolation={level}, or use another machine.",
            )
        return level

    def _prepared(self, task: Task, family: DeviceFamily, token: CancelToken) -> Iterator[None]:
        """Open a task and draw its checking sets, a case at a time."""
        try:
            opened = self._opened(task, _nobody, token, family, timed_later=True)
            for case in task.visible_cases:
                yield
                opened.worker.cancel = token
                opened.pool(case.name)
                opened.worker.cancel = None
        except Exception:
            self._close(_key(family, task))
            raise

    def _opened(
        self, task: Task, tell: Tell, token: CancelToken, family: DeviceFamily, **how: bool
    ) -> OpenTask:
        """how: of `open_task`, where it is not open."""
        key = _key(family, task)
        opened = self._open.get(key)
        if opened is None:
            opened, _ = self._again(task, tell, token, family, **how)
            self._keep(key, opened)
        elif how.get("timed_later"):  # it may have been opened for a check alone
            self._machine.expect_task(family, opened.text.folder, compiles=True)
        self._open.move_to_end(key)
        return opened

    def _again(
        self, task: Task, tell: Tell, token: CancelToken, family: DeviceFamily, **how: bool
    ) -> tuple[OpenTask, Task]:
        """Open what was opened before, without examining it. how: of `open_task`. Raises
        TaskRefusedError where it is another task now."""
        try:
            handle, found = self._start_task(
                task.source, task.path, tell, token, family, timed=False, known=True, **how
            )
            _check_same(task, handle, found)
            return handle, found
        except TaskRefusedError:
            # the next opening examines it
            self._remembered.forget(family, TaskText.of(task.source, task.path))
            raise

    def _place(
        self, family: DeviceFamily, target: Target, task: Task, request: EvaluationRequest
    ) -> Place:
        """Where to evaluate. Raises Unavailable where the language does not work, and Unfit where a
        verdict would mislead."""
        language = LANGUAGES[request.candidate.language]
        report = self._machine.find(target, language.name)
        if report is None or report.mode == "absent":
            able = ", ".join(
                f"{t.target}: {', '.join(t.languages)}"
                for t in self._machine.targets()
                if t.mode != "absent"
            )
            reason = f": {report.reason}" if report else ""
            raise Unavailable(
                f"{language.name} kernels do not work on {target} here{reason}",
                f"What works here: {able}.",
            )
        dtypes = {spec.dtype for c in task.cases for spec in (*c.inputs, *c.outputs)}
        dtypes |= {p.partition("[")[0].split()[-1] for p in task.parameters}
        if reason := language.unfit(request.candidate.source, target, dtypes):
            raise Unfit(reason)
        return self._machine.place(family, target, language.name)

    def _compiler(self, target: Target, language: str) -> Place:
        """Where to compile for a target. Raises Unavailable where the language cannot be."""
        if self._machine.only_compiles(target) and self._machine.find(target, language) is None:
            able = ", ".join(
                dict.fromkeys(
                    n
                    for t in self._machine.targets()
                    if t.target == str(target)
                    for n in t.languages
                )
            )
            raise Unavailable(
                f"{language} cannot be compiled for {target} here",
                f"Languages for it here: {able}.",
            )
        return self._machine.compiler(target, language)

    def _keep(self, key: str, handle: OpenTask) -> None:
        self._close(key)
        self._open[key] = handle
        while len(self._open) > OPEN_TASKS:
            self._open.popitem(last=False)[1].close()

    def _close(self, key: str) -> None:
        if (old := self._open.pop(key, None)) is not None:
            old.close()

    def _make_room(self, family: DeviceFamily) -> None:
        """What is held for tasks that may be asked for again is no reason to refuse another one."""
        short = host_memory.available() < ROOM_SHARE * host_memory.allowed()
        if self._open and (short or (family.OWN_MEMORY and device_link.free_share() < ROOM_SHARE)):
            self._free()

    def _free(self) -> None:
        """Close every task, and give back what they held."""
        self._forget()
        self._machine.reaper.wait()
        gc.collect()  # sets of what failed hang in the cycles of its traceback
        host_memory.trim()

    def _forget(self) -> None:
        """Close every task: after trouble of our own nothing that was open is trusted, and what is
        confirmed needs the memory."""
        self._idle.drop()
        while self._open:
            self._open.popitem()[1].close()


def _family(target: Target) -> DeviceFamily:
    """The device family that evaluates for a target. Raises Unavailable with the reason."""
    family = FAMILIES.get(target.family)
    if family is None:
        raise Unavailable(
            f"target {target} cannot be evaluated by this version",
            f"Targets: {', '.join(FAMILIES)}.",
        )
    if reason := family.missing():
        raise Unavailable(f"target {target} is not here: {reason}", "Use target cpu.")
    if target.arch and not family.device_key().split(":sm_")[-1].startswith(
        target.arch.removeprefix("sm_")
    ):
        raise Unavailable(
            f"target {target} is not the device here ({family.device_key()})", "Use that one."
        )
    return family


def _key(family: DeviceFamily, task: Task) -> str:
    """Under which a task is held open: one with neighbours reads its own folder again at each start
    of a process."""
    return "\0".join((family.NAME, task.digest, task.path if task.neighbours else ""))


def _check_same(task: Task, handle: OpenTask, found: Task) -> None:
    """Raises TaskRefusedError, with the task closed, unless what was opened now is what the task
    was."""
    changed = ""
    if handle.digest != task.digest:
        changed = differing(task.neighbours, handle.neighbours) or "its held-out companion"
    elif _shapes(task) != _shapes(found):
        changed = (
            "the shape or dtype of an input or output, and not its text: something that it imports"
        )
    if changed:
        where = handle.text.lines.at()
        handle.close()
        raise TaskRefusedError(
            f"{where}: the task is another one now: {changed} changed since it was opened; open "
            "the task again"
        )


def _draw(handle: OpenTask, cases: Sequence[Case], tell: Tell) -> None:
    """The checking sets that a task known from before has not yet: they belong to opening it, and
    an evaluation's seconds do not hold them."""
    for case in cases:
        if case.name not in handle.pools or not handle.pools[case.name].checking:
            tell("open", f"case {case.name}: inputs and high-precision results", 0.05)
            handle.pool(case.name)


def _shapes(task: Task) -> list[Any]:
    """What a case takes and gives, of those that authors see; strides may be another device's."""
    return [(c.name, *map(str, (*c.inputs, *c.outputs))) for c in task.visible_cases]


def _failed(number: int, error: Exception) -> dict[str, Any]:
    """Called where it is handled."""
    traceback.print_exc()
    hint = "See the judge's log on stderr; the call may be repeated."
    return _error(number, "failed", f"{type(error).__name__}: {error}", hint)


def _error(number: int, kind: str, message: str, hint: str) -> dict[str, Any]:
    return {"id": number, "error": {"kind": kind, "message": message, "hint": hint}}


def _teller(number: int) -> Tell:
    """Reports what goes on to whoever sent the request of that number."""
    return lambda stage, text, fraction: _say(
        {"id": number, "event": {"stage": stage, "message": text, "fraction": fraction}}
    )


def _nobody(stage: str, text: str, fraction: float) -> None:
    """Nobody waits."""


_output = threading.Lock()


def _say(answer: dict[str, Any]) -> None:
    with _output:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main(cache: str) -> None:
    """Entry of the process. Every input set is a descriptor, and small cases have hundreds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))
    Judge(Path(cache)).serve()
