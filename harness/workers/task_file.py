"""Reads a task file inside the reference worker: its definitions, its cases, and errors that name
the line and the fix."""

from __future__ import annotations

import inspect
import random
import sys
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..wire.task_lines import Lines
from . import modules

IMPORTING = "importing the file"
_DRAWN = 2  # held-out cases that are drawn from each declared range


class TaskProblem(Exception):
    """The task cannot be judged. The message names the line and the fix."""


@dataclass(frozen=True)
class CaseSpec:
    """One declared case: keyword arguments and its role."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    protected: bool = False
    held_out: bool = False


@dataclass(frozen=True)
class TaskFile:
    """The loaded module and what it declares."""

    module: types.ModuleType
    lines: Lines
    cases: tuple[CaseSpec, ...]
    tolerance: str
    gradients: bool
    baselines: dict[str, Callable[..., Any]]

    def inputs(self, case: CaseSpec) -> list[Any]:
        """Call get_inputs() for a case and return a list."""
        value = self._ask("get_inputs", case)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def init_inputs(self, case: CaseSpec) -> Any:
        """Call get_init_inputs() for a case. Returns a list (positional arguments) or a dict
        (keyword arguments); [] without the function."""
        if not hasattr(self.module, "get_init_inputs"):
            return []
        value = self._ask("get_init_inputs", case)
        if not isinstance(value, (list, tuple, dict)):
            raise TaskProblem(
                f"{self.lines.at('get_init_inputs')}: get_init_inputs() returned a "
                f"{type(value).__name__}; return the constructor's arguments as a list, or as a "
                "dict by keyword"
            )
        return value if isinstance(value, dict) else list(value)

    def _ask(self, name: str, case: CaseSpec) -> Any:
        function = getattr(self.module, name)
        accepted = inspect.signature(function).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        arguments = {k: v for k, v in case.arguments.items() if open_ended or k in accepted}
        what = f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"
        return attempt(lambda: function(**arguments), what, self.lines, name)


def attempt(action: Callable[[], Any], what: str, lines: Lines, *anchors: str) -> Any:
    """Run a part of the task. Whatever it raises becomes a TaskProblem with the line of the task
    file that raised or, if none was involved, the line of the first anchor that is defined."""
    try:
        return action()
    except TaskProblem:
        raise
    except modules.LoadError as error:
        raise TaskProblem(
            str(error) if error.kind == "syntax_error" else f"{lines.at(*anchors)}: {error}"
        ) from error
    except BaseException as error:
        task_lines = [
            f.lineno
            for f in traceback.extract_tb(error.__traceback__)
            if f.filename == lines.filename
        ]
        where = f"{lines.filename}, line {task_lines[-1]}" if task_lines else lines.at(*anchors)
        raise TaskProblem(
            f"{where}: {what} raised {type(error).__name__}: {error}. {_fix(error, what)}"
        ) from error


def _fix(error: BaseException, what: str) -> str:
    if isinstance(error, ImportError):
        return (
            f"Install it where the evaluator runs ({sys.executable}), or do not use it; modules "
            "beside the task can be imported."
        )
    if isinstance(error, OSError):
        return (
            "A task runs in a sandbox: it can read its own folder and write to its temporary "
            "folder, and has no network and no home directory."
        )
    if (
        isinstance(error, MemoryError)
        or "allocate memory" in str(error)
        or "out of memory" in str(error)
    ):
        return "Use smaller shapes, or a machine with more memory."
    return (
        "Fix that line: it must be possible to import the file by itself."
        if what == IMPORTING
        else f"Make {what} run by itself in Python."
    )


def read(
    source: str,
    filename: str,
    held_out_source: str = "",
    held_out_name: str = "task.heldout.py",  # `inspect`, and so torch, needs a module's file name
    seed: int = 0,
) -> TaskFile:
    """Load the file and check its parts. Raises TaskProblem."""
    lines = Lines(source, filename)
    _check_parts(source, lines)
    module = attempt(lambda: modules.load(source, "task", filename), IMPORTING, lines)
    _check_definitions(module, lines)
    cases = _cases(module, lines)
    if held_out_source:
        held_out_lines = Lines(held_out_source, held_out_name)
        companion = attempt(
            lambda: modules.load(held_out_source, "task_held_out", held_out_name),
            IMPORTING,
            held_out_lines,
        )
        cases += _companions(companion, held_out_lines)
    cases += _draw_held_out(module, lines, random.Random(seed))
    _check_arguments(module, cases, lines)
    tolerance = getattr(module, "TOLERANCE", "default")
    if tolerance not in ("default", "bitwise"):
        raise TaskProblem(
            f'{lines.at("TOLERANCE")}: TOLERANCE is {tolerance!r}; accepted: "default", "bitwise"'
        )
    baselines = getattr(module, "BASELINES", {})
    if not isinstance(baselines, dict) or not all(
        isinstance(k, str) and callable(v) for k, v in baselines.items()
    ):
        raise TaskProblem(
            f"{lines.at('BASELINES')}: BASELINES must map names to callables of the init inputs "
            "that return a module or function"
        )
    if reserved := {"eager", "compile"} & set(baselines):
        name = min(reserved)
        raise TaskProblem(
            f"{lines.at(f'BASELINES[{name!r}]', 'BASELINES')}: BASELINES may not use the name "
            f"{name!r}, which KEvolve measures itself; choose another name"
        )
    return TaskFile(
        module,
        lines,
        tuple(cases),
        tolerance,
        bool(getattr(module, "GRADIENTS", False)),
        dict(baselines),
    )


def _check_parts(source: str, lines: Lines) -> None:
    """Raise TaskProblem for errors that can be found without running the file."""
    try:
        compile(source.encode(), lines.filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        number = getattr(error, "lineno", None) or 1
        raise TaskProblem(
            f"{lines.filename}, line {number}: not valid Python: {error.args[0]}; fix the syntax "
            "there or just above"
        ) from error
    if "*" in lines.first:  # from … import *: its names are known only after running it
        return
    if not lines.first.keys() & {"Model", "reference"}:
        raise TaskProblem(_no_model(lines))
    if "get_inputs" not in lines.first:
        raise TaskProblem(_no_inputs(lines))


def _check_definitions(module: types.ModuleType, lines: Lines) -> None:
    if not any(callable(getattr(module, name, None)) for name in ("Model", "reference")):
        raise TaskProblem(_no_model(lines))
    if not callable(getattr(module, "get_inputs", None)):
        raise TaskProblem(_no_inputs(lines))


def _no_model(lines: Lines) -> str:
    return (
        f"{lines.end}: neither class Model(nn.Module) nor a function reference(*inputs) is "
        "defined; a task is a KernelBench file: Model, get_inputs(), get_init_inputs()"
    )


def _no_inputs(lines: Lines) -> str:
    return (
        f"{lines.end}: get_inputs() is not defined; add one that returns the list of forward's "
        "arguments"
    )


def _cases(module: types.ModuleType, lines: Lines) -> list[CaseSpec]:
    declared = getattr(module, "CASES", None)
    if declared is None:
        declared = {"default": {}}
    if (
        not isinstance(declared, dict)
        or not declared
        or not all(isinstance(k, str) and isinstance(v, dict) for k, v in declared.items())
    ):
        raise TaskProblem(
            f'{lines.at("CASES")}: CASES must map names to keyword arguments, e.g. {{"small": '
            '{"rows": 32}}'
        )
    weights, protected = getattr(module, "WEIGHTS", {}), _names(module, "PROTECTED", lines)
    held_out = _names(module, "HELD_OUT", lines)
    if not isinstance(weights, dict):
        raise TaskProblem(
            f'{lines.at("WEIGHTS")}: WEIGHTS must map case names to numbers, e.g. {{"small": 2.0}}'
        )
    for label, names in (
        ("WEIGHTS", set(weights)),
        ("PROTECTED", protected),
        ("HELD_OUT", held_out),
    ):
        if unknown := sorted(map(str, names - set(declared))):
            where = lines.at(f"{label}[{unknown[0]!r}]", label)
            raise TaskProblem(
                f"{where}: {label} names {unknown[0]!r}, which is not in CASES; choose from: "
                f"{', '.join(declared)}"
            )
    if any(
        not isinstance(w, (int, float)) or not 0 <= w < float("inf") for w in weights.values()
    ) or all(name in held_out or weights.get(name, 1.0) == 0 for name in declared):
        raise TaskProblem(
            f"{lines.at('WEIGHTS', 'HELD_OUT')}: WEIGHTS must be numbers >= 0, with at least one "
            "positive weight among the cases not held out"
        )
    return [
        CaseSpec(
            name,
            dict(arguments),
            float(weights.get(name, 1.0)),
            name in protected,
            name in held_out,
        )
        for name, arguments in declared.items()
    ]


def _names(module: types.ModuleType, label: str, lines: Lines) -> set[str]:
    """Return the case names in PROTECTED or HELD_OUT."""
    value = getattr(module, label, ())
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise TaskProblem(
            f'{lines.at(label)}: {label} must be a list, e.g. ["small"], not a '
            f"{type(value).__name__}"
        )
    return {v for v in value if isinstance(v, str)}


def _companions(companion: types.ModuleType, lines: Lines) -> list[CaseSpec]:
    declared = getattr(companion, "CASES", None)
    if not isinstance(declared, dict) or not all(isinstance(v, dict) for v in declared.values()):
        raise TaskProblem(
            f"{lines.at('CASES')}: a held-out file must define CASES, which maps names to keyword "
            "arguments, and nothing else"
        )
    return [CaseSpec(f"held_out:{k}", dict(v), held_out=True) for k, v in declared.items()]


def _check_arguments(module: types.ModuleType, cases: list[CaseSpec], lines: Lines) -> None:
    """Require that get_inputs or get_init_inputs names every keyword of a case; otherwise a typo
    would go unnoticed."""
    functions = [
        getattr(module, n) for n in ("get_inputs", "get_init_inputs") if hasattr(module, n)
    ]
    parameters = [p for f in functions for p in inspect.signature(f).parameters.values()]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    named = {p.name for p in parameters}
    for case in cases:
        if unknown := sorted(set(case.arguments) - named):
            where = lines.at(
                f"CASES[{case.name!r}]", "HELD_OUT" if case.held_out else "CASES", "CASES"
            )
            raise TaskProblem(
                f"{where}: case {case.name!r} gives {unknown[0]!r}, which neither get_inputs nor "
                f"get_init_inputs takes (they take: {', '.join(sorted(named)) or 'nothing'})"
            )


def _draw_held_out(module: types.ModuleType, lines: Lines, rng: random.Random) -> list[CaseSpec]:
    """Draw cases from the ranges of HELD_OUT: {"rows": (1, 4096)} draws uniformly, a list draws one
    of its items, anything else is kept."""
    cases = []
    for position, entry in enumerate(
        h for h in getattr(module, "HELD_OUT", ()) if not isinstance(h, str)
    ):
        if not isinstance(entry, dict):
            where = lines.at(f"HELD_OUT[{entry!r}]", "HELD_OUT")
            raise TaskProblem(
                f'{where}: HELD_OUT takes case names or ranges such as {{"rows": (1, 4096)}}, not '
                f"{entry!r}"
            )
        for number in range(_DRAWN):
            arguments = {k: _draw(v, rng) for k, v in entry.items()}
            cases.append(CaseSpec(f"held_out:{position}.{number}", arguments, held_out=True))
    return cases


def _draw(value: Any, rng: random.Random) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return rng.randint(min(value), max(value))
    return rng.choice(value) if isinstance(value, list) and value else value
