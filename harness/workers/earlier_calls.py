"""Refuses references whose calls leave behind what nothing could compare, or on which later results
depend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.task_lines import FORWARD
from . import modules, tensor_relations
from .live_task import LiveTask
from .module_watch import ModuleWatch
from .task_file import TaskProblem

Call = Callable[[Any], list[Any]]  # from inputs to outputs


def carried_on(
    task: LiveTask, watch: ModuleWatch, call: Call, fresh: Call, inputs: list[Any]
) -> list[str]:
    """Return the names of parameters and buffers that each call changes, not only the first one.

    watch: since before the first call. fresh: the same reference, which was not called before.
    inputs: other ones than those of the earlier calls. Raises TaskProblem for a reference whose
    calls change plain attributes, which no candidate need have, or the shape of a buffer, and for
    one whose results differ from those of `fresh`.
    """
    where = task.lines.at(*FORWARD)
    earlier = ModuleWatch(watch.model)
    outputs = task.attempt(lambda: call(inputs))
    state = modules.state(watch.model)
    if reshaped := [n for n in watch.reshaped() if n in state] + earlier.reshaped():
        raise TaskProblem(
            f"{where}: forward adds the buffer {reshaped[0]!r}, removes it, or changes its shape "
            "or dtype; register it in __init__, and keep its shape and dtype"
        )
    if names := earlier.changed_attributes():
        raise TaskProblem(
            f"{where}: forward changes self.{names[0]}, a plain attribute, in each call; a "
            "candidate need not have it, so nothing compares it. Make it a buffer "
            "(self.register_buffer in __init__), return it, or keep it in a local variable. (What "
            "the first call sets and later ones leave as it is may stay: a table, say.)"
        )
    if not tensor_relations.all_close(outputs, task.attempt(lambda: fresh(inputs))):
        raise problem(task, watch)
    return earlier.updated()


def problem(task: LiveTask, watch: ModuleWatch) -> TaskProblem:
    """Return the error for a reference whose results depend on earlier calls."""
    return TaskProblem(
        f"{task.lines.at(*FORWARD)}: results depend on earlier calls, which changed "
        f"{changed(watch)}; what is right must follow from the inputs and the initial state. Make "
        "what calls carry on an input, and return its new value"
    )


def changed(watch: ModuleWatch) -> str:
    """Name what calls have changed, "" for nothing."""
    names = [*watch.updated(), *watch.changed_attributes()]
    return " and ".join(f"self.{name}" for name in names[:3])
