"""Starting kernels: the user's file, skills whose pattern matches, kernels of similar tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import Candidate, Task
from knowledge import Skill

from .skills import instantiate, skill_name


@dataclass(frozen=True)
class Start:
    """A kernel to evaluate before the search proper. origin: "user file", "skill: NAME", "task: NAME"."""

    candidate: Candidate
    origin: str
    note: str = ""


@dataclass(frozen=True)
class SimilarKernel:
    """The best kernel of a task that executes similar operators."""

    task: str
    candidate: Candidate
    fitness: float | None = None


@dataclass(frozen=True)
class Starts:
    """found: in the order in which they should be tried. notes: one line for each source that gave nothing, with the reason;
    when nothing at all was found the last note says what to do."""

    found: tuple[Start, ...]
    notes: tuple[str, ...] = ()


def find_starts(
    task: Task,
    target: str,
    language: str,
    *,
    user: Candidate | None = None,
    skills: Sequence[Skill] = (),
    similar: Sequence[SimilarKernel] = (),
    per_skill: int = 2,
    limit: int = 6,
) -> Starts:
    """The user's file first, then at most `per_skill` instantiations of each matching skill, then similar tasks' kernels as they
    are (they rarely fit unchanged, but show what worked); equal texts once, `limit` in all."""
    found: list[Start] = []
    notes: list[str] = []
    if user is None:
        notes.append("no kernel of the user was given")
    else:
        found.append(Start(user, "user file", "given when the session was opened"))
    for skill in skills:
        result = instantiate(skill, task, target, language)
        found.extend(Start(i.candidate, f"skill: {skill_name(skill)}", i.note) for i in result.found[:per_skill])
        if not result.found:
            notes.append(f"skill {skill_name(skill)}: {result.reason}")
    for kernel in similar:
        if kernel.candidate.language == language:
            reached = "" if kernel.fitness is None else f", where it reached F = {kernel.fitness:.2f}"
            found.append(
                Start(kernel.candidate, f"task: {kernel.task}", f"the best kernel of the similar task {kernel.task}{reached}")
            )
    if not similar:
        notes.append("no finished session holds a kernel for similar operators")
    unique = _unique(found)
    if not unique:
        notes.append(
            "no starting kernel was found: give one with start_path or start_source, or write the first one from the template "
            "(`kevolve template TASK`), beginning with a plain correct kernel"
        )
    if len(unique) > limit:
        notes.append(f"{len(unique) - limit} further starting kernels were left out")
    return Starts(tuple(unique[:limit]), tuple(notes))


def _unique(starts: list[Start]) -> list[Start]:
    seen: set[str] = set()
    kept: list[Start] = []
    for start in starts:
        if start.candidate.digest not in seen:
            seen.add(start.candidate.digest)
            kept.append(start)
    return kept
