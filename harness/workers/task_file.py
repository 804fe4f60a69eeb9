"""Reading a task file inside the reference worker: what it offers, its cases, and errors that name the line and the mend."""

from __future__ import annotations

import ast
import inspect
import random
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import modules

_DRAWN = 2  # held-out cases drawn from each declared range


class TaskProblem(Exception):
    """The task cannot be judged; the message names the line where there is one, and the mend."""


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
    filename: str
    cases: tuple[CaseSpec, ...]
    tolerance: str
    gradients: bool
    baselines: dict[str, Callable[..., Any]]

    def inputs(self, case: CaseSpec) -> list[Any]:
        """get_inputs() for a case, as a list."""
        value = self._ask("get_inputs", case)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def init_inputs(self, case: CaseSpec) -> Any:
        """get_init_inputs() for a case: a list (positional) or a dict (by keyword); [] without the function."""
        value = self._ask("get_init_inputs", case) if hasattr(self.module, "get_init_inputs") else []
        return value if isinstance(value, dict) else list(value)

    def _ask(self, name: str, case: CaseSpec) -> Any:
        function = getattr(self.module, name)
        accepted = inspect.signature(function).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        chosen = {k: v for k, v in case.arguments.items() if open_ended or k in accepted}
        return attempt(lambda: function(**chosen), f"{name}({', '.join(f'{k}={v!r}' for k, v in chosen.items())})", self.filename)


def attempt(action: Callable[[], Any], what: str, filename: str) -> Any:
    """Run a part of the task; what it raises becomes a TaskProblem with the line of the task file."""
    try:
        return action()
    except TaskProblem:
        raise
    except modules.LoadError as error:
        raise TaskProblem(f"{filename}: {error}") from error
    except BaseException as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
        where = f"{filename}, line {lines[-1]}" if lines else filename
        raise TaskProblem(f"{where}: {what} raised {type(error).__name__}: {error}") from error


def read(source: str, filename: str, held_out_source: str = "", seed: int = 0) -> TaskFile:
    """Load the file and check its parts. Raises TaskProblem."""
    _check_parts(source, filename)
    module = attempt(lambda: modules.load(source, "task", filename), "importing the file", filename)
    if not callable(getattr(module, "get_inputs", None)):
        raise TaskProblem(f"{filename}: get_inputs() is not defined; it returns the list of forward's arguments")
    cases = _cases(module, filename)
    if held_out_source:
        companion = attempt(
            lambda: modules.load(held_out_source, "task_held_out", filename), "importing the held-out file", filename
        )
        cases += [CaseSpec(f"held_out:{k}", dict(v), held_out=True) for k, v in getattr(companion, "CASES", {}).items()]
    cases += _drawn(module, filename, random.Random(seed))
    _check_arguments(module, cases, filename)
    tolerance = getattr(module, "TOLERANCE", "default")
    if tolerance not in ("default", "bitwise"):
        raise TaskProblem(f'{filename}: TOLERANCE is {tolerance!r}; accepted: "default", "bitwise"')
    baselines = getattr(module, "BASELINES", {})
    if not isinstance(baselines, dict) or not all(callable(v) for v in baselines.values()):
        raise TaskProblem(
            f"{filename}: BASELINES must map names to callables of the init inputs that return a module or function"
        )
    if reserved := {"eager", "compile"} & set(baselines):
        raise TaskProblem(f"{filename}: BASELINES may not use the name {min(reserved)!r}: KEvolve measures that one itself")
    return TaskFile(module, filename, tuple(cases), tolerance, bool(getattr(module, "GRADIENTS", False)), dict(baselines))


def _check_parts(source: str, filename: str) -> None:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise TaskProblem(f"{filename}, line {error.lineno}: not valid Python: {error.msg}") from error
    names = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    names |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    names |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    if not names & {"Model", "reference"}:
        raise TaskProblem(
            f"{filename}: neither class Model(nn.Module) nor a function reference(*inputs) is defined; "
            "a task is a KernelBench file: Model, get_inputs(), get_init_inputs()"
        )
    if "get_inputs" not in names:
        raise TaskProblem(f"{filename}: get_inputs() is not defined; add one that returns the list of forward's arguments")


def _cases(module: types.ModuleType, filename: str) -> list[CaseSpec]:
    declared = getattr(module, "CASES", None)
    weights = getattr(module, "WEIGHTS", {})
    protected = set(getattr(module, "PROTECTED", ()))
    held_out = {h for h in getattr(module, "HELD_OUT", ()) if isinstance(h, str)}
    if declared is None:
        declared = {"default": {}}
    if not isinstance(declared, dict) or not declared or not all(isinstance(v, dict) for v in declared.values()):
        raise TaskProblem(f'{filename}: CASES must map names to keyword arguments, e.g. {{"small": {{"rows": 32}}}}')
    for label, names in (("WEIGHTS", set(weights)), ("PROTECTED", protected), ("HELD_OUT", held_out)):
        if unknown := sorted(names - set(declared)):
            raise TaskProblem(f"{filename}: {label} names {unknown[0]!r}, which is not in CASES ({', '.join(declared)})")
    if any(not isinstance(w, (int, float)) or w < 0 for w in weights.values()) or all(
        name in held_out or weights.get(name, 1.0) == 0 for name in declared
    ):
        raise TaskProblem(
            f"{filename}: WEIGHTS must be numbers >= 0, with at least one positive weight among the cases not held out"
        )
    return [
        CaseSpec(name, dict(arguments), float(weights.get(name, 1.0)), name in protected, name in held_out)
        for name, arguments in declared.items()
    ]


def _check_arguments(module: types.ModuleType, cases: list[CaseSpec], filename: str) -> None:
    """Every keyword of a case must be named by get_inputs or get_init_inputs; else a typing error would pass in silence."""
    functions = [getattr(module, n) for n in ("get_inputs", "get_init_inputs") if hasattr(module, n)]
    parameters = [p for f in functions for p in inspect.signature(f).parameters.values()]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    named = {p.name for p in parameters}
    for case in cases:
        if unknown := sorted(set(case.arguments) - named):
            raise TaskProblem(
                f"{filename}: case {case.name!r} gives {unknown[0]!r}, which neither get_inputs nor get_init_inputs takes "
                f"(they take: {', '.join(sorted(named)) or 'nothing'})"
            )


def _drawn(module: types.ModuleType, filename: str, rng: random.Random) -> list[CaseSpec]:
    """Cases from the ranges of HELD_OUT: {"rows": (1, 4096)} draws uniformly, a list chooses, anything else stays."""
    drawn = []
    for position, entry in enumerate(h for h in getattr(module, "HELD_OUT", ()) if not isinstance(h, str)):
        if not isinstance(entry, dict):
            raise TaskProblem(f'{filename}: HELD_OUT takes case names or ranges such as {{"rows": (1, 4096)}}, not {entry!r}')
        for number in range(_DRAWN):
            arguments = {k: _draw(v, rng) for k, v in entry.items()}
            drawn.append(CaseSpec(f"held_out:{position}.{number}", arguments, held_out=True))
    return drawn


def _draw(value: Any, rng: random.Random) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return rng.randint(*value)
    return rng.choice(value) if isinstance(value, list) and value else value
