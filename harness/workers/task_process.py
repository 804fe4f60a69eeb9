"""The process of a task: its folder, its output, and the monitoring of its steps."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from ..wire.task_lines import FORWARD, Lines
from . import compile_cache, task_file
from .live_task import CALL
from .modules import LoadError
from .task_file import TaskProblem
from .task_folder import TaskNeighbours


class TaskSteps:
    """Runs the task's code in steps. stack: a file for the stack of a step that takes longer than
    `patience_s`."""

    def __init__(
        self, stack: int, patience_s: float, neighbours: TaskNeighbours, lines: Lines
    ) -> None:
        self._stack, self._patience_s = stack, patience_s
        self._neighbours, self._lines = neighbours, lines

    def run(self, action: Callable[[], Any]) -> Any:
        """Run one step. If it hangs, its stack is written for the judge. Raises
        LoadError("task")."""
        os.ftruncate(self._stack, 0)
        os.lseek(self._stack, 0, os.SEEK_SET)
        faulthandler.dump_traceback_later(self._patience_s, file=self._stack)
        try:
            result = task_file.attempt(action, CALL, self._lines, *FORWARD)
            if reason := self._neighbours.problem():
                raise TaskProblem(f"{self._lines.at(*FORWARD)}: {reason}")
            return result
        except TaskProblem as error:
            raise LoadError("task", str(error)) from error
        finally:
            faulthandler.cancel_dump_traceback_later()


def settle(folder: str, search_path: str, compiled_fd: int) -> None:
    """Set the search path, the compile caches and the current folder for a task."""
    os.environ["PATH"] = search_path
    compile_cache.use_private_folders()
    if os.fstat(compiled_fd).st_size:
        compile_cache.unpack(compiled_fd)
    if folder:
        # this process's user may not be able to read it: the import reports that
        with contextlib.suppress(OSError):
            os.chdir(folder)
        # a task may import its neighbours; the evaluator's packages come first
        sys.path.insert(1, folder)


class LossyLog(io.TextIOBase):
    """Writes a task's output to the log while there is room, and then drops it: a noisy task may
    still be a good one."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):  # full
            os.write(1, text.encode(errors="replace"))
        return len(text)
