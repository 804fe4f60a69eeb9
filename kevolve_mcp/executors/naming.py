"""The names in a task: none may break the lines in which it is shown, or hide text in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.types import Task
from harness.wire.task_lines import Lines
from kevolve_mcp.errors import TaskRefused
from kevolve_mcp.visible import LONGEST_NAME, name_problem, visible


def well_named(task: Task) -> Task:
    """Return the task; its own name, which comes from a file or folder, becomes one line. Raises
    TaskRefused for names of cases or baselines, without the name: it may be that of a held-out
    case."""
    for label, names in (("CASES", [c.name for c in task.cases]), ("BASELINES", task.baselines)):
        if reason := next(filter(None, map(name_problem, names)), ""):
            where = Lines(task.source, Path(task.path).name or "task.py").at(label)
            raise TaskRefused(
                f"{where}: a name in {label} {reason}; accepted is text of one line with 1 to "
                f'{LONGEST_NAME} visible characters, such as "large"',
                "Rename it and open the task again.",
            )
    return replace(task, name=" ".join(visible(task.name).split()))
