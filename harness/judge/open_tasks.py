"""The tasks that a judge keeps open: each has processes and inputs, and is closed for another one
where memory is short."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..targets import DeviceFamily
from ..types import Case, Task
from .device import host_memory
from .device.machine import Machine
from .errors import CancelToken, TaskRefusedError
from .exchange import device_link
from .idle import Idle
from .tasks.open_task import OpenTask, Tell
from .tasks.opening import open_task
from .tasks.opening_cache import OpeningCache
from .tasks.task_workers import TaskText, differing

OPEN_TASKS = 2  # each holds a process and up to a few gigabytes of inputs
# share of the memory limit of a task: if less is free, the open tasks are closed before another one
# is opened
ROOM_SHARE = 0.5


class OpenTasks:
    """A few tasks with live processes. Closing all of them also drops the idle work for one, see
    `idle`."""

    def __init__(self, machine: Machine, cache: OpeningCache, idle: Idle) -> None:
        self._machine, self._cache, self._idle = machine, cache, idle
        self._open: OrderedDict[str, OpenTask] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(
        self, task: Task, tell: Tell, token: CancelToken, family: DeviceFamily, **options: bool
    ) -> OpenTask:
        """Return the open task; open it with these options of `open_task` if it is not."""
        key = open_key(family, task)
        handle = self._open.get(key)
        if handle is None:
            handle, _ = self.reopen(task, tell, token, family, **options)
            self.keep(key, handle)
        elif options.get("timed_later"):  # it may have been opened only for a check
            self._machine.expect_task(family, handle.text.folder, compiles=True)
        self._open.move_to_end(key)
        return handle

    def reopen(
        self, task: Task, tell: Tell, token: CancelToken, family: DeviceFamily, **options: bool
    ) -> tuple[OpenTask, Task]:
        """Open a known task again without examining it. options: of `open_task`. Raises
        TaskRefusedError if the task has changed."""
        try:
            handle, task_now = self.start(
                task.source, task.path, tell, token, family, timed=False, reopened=True, **options
            )
            _check_same(task, handle, task_now)
            return handle, task_now
        except TaskRefusedError:
            # forget it, so that the next opening examines the task
            self._cache.forget(family, TaskText.of(task.source, task.path))
            raise

    def start(
        self,
        source: str,
        path: str,
        tell: Tell,
        token: CancelToken,
        family: DeviceFamily,
        **options: bool,
    ) -> tuple[OpenTask, Task]:
        """Open a task. options: of `open_task`."""
        self._make_room(family)
        try:
            return open_task(self._machine, source, path, tell, token, family=family, **options)
        except TaskRefusedError as error:
            if not (self._open and error.for_memory):
                raise
        self.free_memory()
        return open_task(self._machine, source, path, tell, token, family=family, **options)

    def keep(self, key: str, handle: OpenTask) -> None:
        """Keep a task open, in place of the one with this key; if there are too many, close the one
        used longest ago."""
        self.close(key)
        self._open[key] = handle
        while len(self._open) > OPEN_TASKS:
            self._open.popitem(last=False)[1].close()

    def close(self, key: str) -> None:
        """Close the task with this key, if it is open."""
        if (old := self._open.pop(key, None)) is not None:
            old.close()

    def _make_room(self, family: DeviceFamily) -> None:
        """Close the open tasks if memory is short, so that they are no reason to refuse another."""
        short = host_memory.available() < ROOM_SHARE * host_memory.limit_bytes()
        if self._open and (short or (family.OWN_MEMORY and device_link.free_share() < ROOM_SHARE)):
            self.free_memory()

    def free_memory(self) -> None:
        """Close every task and release its memory."""
        self.close_all()
        self._machine.reaper.wait()
        gc.collect()  # tracebacks of failures keep input sets in reference cycles
        host_memory.trim()

    def close_all(self) -> None:
        """Close every task: after an error of the evaluator no open task is trusted, and a
        confirmation needs the memory."""
        self._idle.drop()
        while self._open:
            self._open.popitem()[1].close()


def open_key(family: DeviceFamily, task: Task) -> str:
    """Return the key under which a task is kept open. A task with neighbours is identified by its
    path too, since each of its processes reads its folder again."""
    return "\0".join((family.NAME, task.digest, task.path if task.neighbours else ""))


def draw_missing(handle: OpenTask, cases: Sequence[Case], tell: Tell) -> None:
    """Draw the checking sets that a remembered task does not have yet. This belongs to opening it,
    and does not count in an evaluation's seconds."""
    for case in cases:
        if case.name not in handle.pools or not handle.pools[case.name].checking:
            tell("open", f"case {case.name}: inputs and high-precision results", 0.05)
            handle.pool(case.name)


def _check_same(task: Task, handle: OpenTask, task_now: Task) -> None:
    """Close the task and raise TaskRefusedError unless it is the same as before."""
    changed = ""
    if handle.digest != task.digest:
        changed = differing(task.neighbours, handle.neighbours) or "its held-out companion"
    elif _shapes(task) != _shapes(task_now):
        changed = (
            "the shape or dtype of an input or output although its text has not: something that it "
            "imports"
        )
    if changed:
        where = handle.text.lines.at()
        handle.close()
        raise TaskRefusedError(
            f"{where}: the task is not the same any more: {changed} changed since it was opened; "
            "open the task again"
        )


def _shapes(task: Task) -> list[Any]:
    """Return inputs and outputs of the cases that authors see, without strides, which may be
    another device's."""
    return [(c.name, *map(str, (*c.inputs, *c.outputs))) for c in task.visible_cases]
