"""Turning skills into candidates without a model: match a skill's pattern to a task, bind the
template's roles, write the file.

The pattern of a skill (front matter):

    operators:  list of groups "aten.mean|aten.var"; of each group at least one operator was
                executed
    without:    list of operators (a trailing * matches any rest) that must not have been executed
    only:       list of operators outside which nothing may have been executed
    families:   list of groups "normalization|softmax" (words of knowledge.families); of each group
                at least one family was executed
    dtypes:     dtypes allowed for the inputs

A wrong guess costs one evaluation: the candidate fails verification and is remembered as a failure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.types import Candidate, Target, Task
from knowledge import Skill
from knowledge.families import of_operators

from .binding import bindings
from .dialects import DIALECTS
from .pointwise import fuse
from .program import NotReadable, Program
from .recognize import hints_for, packets


@dataclass(frozen=True)
class Instantiation:
    """One candidate made from a template. note: the binding of its roles."""

    candidate: Candidate
    skill: str
    template: str
    note: str


@dataclass(frozen=True)
class Instantiations:
    """The candidates made from a skill. found: the likeliest first. reason: why there are none, ""
    otherwise."""

    found: tuple[Instantiation, ...]
    reason: str = ""


def skill_name(skill: Skill) -> str:
    """Return a skill's name: "row_normalization" for "skills/row_normalization"; learned skills
    keep their folder: "learned/one_pass"."""
    return skill.id.removeprefix("skills/")


def foreign(skill: Skill, target: str, language: str) -> str:
    """Return why the skill is for another language or target, "" when it is for this one."""
    page = skill.page
    if page.languages and language not in page.languages:
        return f"it is written in {', '.join(page.languages)}"
    family = Target.parse(target).family
    if page.targets and not any(family == t.partition(":")[0] for t in page.targets):
        return f"it is for {', '.join(page.targets)}"
    return ""


def mismatch(skill: Skill, task: Task, target: str, language: str) -> str:
    """Return why the skill's pattern does not fit the task, "" when it fits."""
    if why := foreign(skill, target, language):
        return why
    ran = set(packets(task))
    for group in _words(skill, "operators"):
        options = [o.strip() for o in group.split("|")]
        if not any(_ran(o, ran) for o in options):
            return f"the task does not execute {' or '.join(options)}"
    for name in _words(skill, "without"):
        if reason := _ran(name, ran):
            return f"the task also executes {reason}"
    if allowed := _words(skill, "only"):
        for operator in sorted(ran):
            if not any(fnmatchcase(operator, a) for a in allowed):
                return f"the task also executes {operator}"
    about = of_operators(task.operators)
    for group in _words(skill, "families"):
        if not any(o.strip() in about for o in group.split("|")):
            return f"the task executes no operator of the family {group.replace('|', ' or ')}"
    if dtypes := _words(skill, "dtypes"):
        for spec in (s for c in task.visible_cases for s in c.inputs):
            if spec.dtype not in dtypes:
                return f"an input is {spec.dtype}; it supports {', '.join(dtypes)}"
    return ""


def instantiate(skill: Skill, task: Task, target: str, language: str) -> Instantiations:
    """Return candidates for the task from every template of the skill."""
    reason = mismatch(skill, task, target, language) or (
        "" if skill.templates else "it has no kernel template"
    )
    if reason:
        return Instantiations((), reason)
    try:
        program = Program.parse(task.source)
    except NotReadable as error:
        return Instantiations((), str(error))
    instantiations: list[Instantiation] = []
    reasons: list[str] = []
    for name in skill.templates:
        made = _attempt(skill, name, program, task, language)
        if isinstance(made, str):
            reasons.append(made)
        else:
            instantiations.extend(made)
    return Instantiations(
        tuple(instantiations), "" if instantiations else "; ".join(dict.fromkeys(reasons))
    )


def _attempt(
    skill: Skill, name: str, program: Program, task: Task, language: str
) -> Iterable[Instantiation] | str:
    """The candidates from one template, or the reason why there are none."""
    try:
        return _fill(skill, name, program, task, language)
    except NotReadable as error:
        return str(error)


def _fill(
    skill: Skill, name: str, program: Program, task: Task, language: str
) -> Iterable[Instantiation]:
    template = skill.files[name]
    floating = [d for d in _words(skill, "dtypes") if "float" in d] or ["float32"]
    roles = _assigned(template, "ROLES", f"{skill.id}/{name}")
    if roles == "elementwise":
        if language not in DIALECTS:
            raise NotReadable(
                f"elementwise kernels are written in {', '.join(DIALECTS)}, not in {language}"
            )
        kernel = fuse(program, task, DIALECTS[language], floating)
        text = DIALECTS[language].fill(template, kernel)
        source = _file(_without(text, {"ROLES": None}), program, kernel.call())
        note = (
            f"{', '.join(f'{o.expression}: {o.mode}' for o in kernel.operands)}; "
            f"{len(kernel.results)} output(s)"
        )
        return [Instantiation(Candidate(source, language), skill_name(skill), name, note)]
    if not isinstance(roles, dict) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in roles.items()
    ):
        raise NotReadable(
            f'the ROLES of {skill.id}/{name} must be "elementwise" or map role names to kinds'
        )
    made = []
    for binding in bindings(
        roles, program, task, hints_for(skill_name(skill), program, task), floating
    ):
        call = f"run({', '.join(f'{role}={text}' for role, text in binding.arguments.items())})"
        text = _without(template, {"ROLES": None, "BINDING": f"BINDING = {binding.choices!r}"})
        candidate = Candidate(_file(text, program, call), language)
        made.append(Instantiation(candidate, skill_name(skill), name, binding.describe()))
    return made


def _file(kernel: str, program: Program, call: str) -> str:
    present = set(kernel.splitlines())
    imports = [line for line in program.imports if line not in present]
    head = "\n".join(imports) + "\n" if imports else ""
    return f"{head}{kernel.rstrip()}\n\n\n{program.wrapped(call)}"


def _without(text: str, changes: dict[str, str | None]) -> str:
    """The text with top-level assignments replaced, or removed where the replacement is None."""
    lines = text.splitlines(keepends=True)
    for statement in reversed(ast.parse(text).body):
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id in changes
        ):
            replacement = changes[statement.targets[0].id]
            lines[statement.lineno - 1 : statement.end_lineno] = (
                [] if replacement is None else [f"{replacement}\n"]
            )
    return "".join(lines)


def _assigned(text: str, name: str, where: str) -> object:
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise NotReadable(f"{where} is not valid Python: line {error.lineno}") from error
    for statement in module.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in statement.targets
        ):
            try:
                return ast.literal_eval(statement.value)
            except ValueError as error:
                raise NotReadable(f"{where}: {name} must be a literal") from error
    raise NotReadable(f"{where} has no literal {name}")


def _words(skill: Skill, key: str) -> list[str]:
    value = skill.pattern.get(key, [])
    return [str(v) for v in ([value] if isinstance(value, str) else value)]


def _ran(pattern: str, ran: set[str]) -> str:
    return next((o for o in sorted(ran) if fnmatchcase(o, pattern)), "")
