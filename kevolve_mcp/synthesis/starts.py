"""Starting kernels: the user's file, skills whose pattern matches, kernels of similar tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import Candidate, CandidateError, Params, Task, Tunables
from kevolve_mcp.search.provenance import USER_FILE, Origin
from knowledge import Skill

from .skills import foreign, instantiate, skill_name
from .wording import one_line


@dataclass(frozen=True)
class Start:
    """A kernel to evaluate before the search proper."""

    candidate: Candidate
    origin: Origin
    note: str = ""


@dataclass(frozen=True)
class SimilarStart:
    """The best kernel of a similar task. place: session and node, "scale-7f3a n12". similarity:
    0..1."""

    task: str
    candidate: Candidate
    fitness: float | None = None
    place: str = ""
    target: str = ""
    device: str = ""
    similarity: float | None = None


@dataclass(frozen=True)
class Starts:
    """The starting kernels found. found: in the order to try them. notes: one line with the reason
    for each source of this target and language that gave none; if no start was found, the last note
    says what to do."""

    found: tuple[Start, ...]
    notes: tuple[str, ...] = ()


def find_starts(
    task: Task,
    target: str,
    language: str,
    *,
    user: Candidate | None = None,
    skills: Sequence[Skill] = (),
    similar: Sequence[SimilarStart] = (),
    per_skill: int = 2,
    limit: int = 6,
) -> Starts:
    """Find starting kernels: the user's file first, then at most `per_skill` instantiations of each
    matching skill, then similar tasks' kernels unchanged (they rarely fit, but show what worked);
    equal texts once, `limit` in all. Before all of them come starts with the TUNABLES of a similar
    task's kernel, with the parameters that were best there."""
    starts: list[Start] = []
    notes: list[str] = []
    if user is None:
        notes.append("the user gave no kernel")
    else:
        starts.append(Start(user, USER_FILE, "given when the session was opened"))
    for skill in skills:
        result = instantiate(skill, task, target, language)
        starts.extend(
            Start(i.candidate, Origin("skill", skill_name(skill)), i.note)
            for i in result.found[:per_skill]
        )
        if not result.found and not foreign(skill, target, language):
            notes.append(f"skill {skill_name(skill)}: {result.reason}")
    for kernel in similar:
        if kernel.candidate.language == language:
            reached = (
                "" if kernel.fitness is None else f", where it reached F = {kernel.fitness:.2f}"
            )
            name, place = one_line(kernel.task), f" ({kernel.place})" if kernel.place else ""
            starts.append(
                Start(
                    kernel.candidate,
                    Origin("task", name),
                    f"the best kernel of the similar task {name}{place}{reached}",
                )
            )
    if not similar:
        notes.append("no earlier session has a kernel for a similar task")
    unique = _unique(_experienced(starts, similar))
    if not unique:
        notes.append(
            "no starting kernel was found: give one, or write a plain correct kernel from the "
            "template"
        )
    if len(unique) > limit:
        notes.append(f"{len(unique) - limit} further starting kernels were left out")
    return Starts(tuple(unique[:limit]), tuple(notes))


def _experienced(starts: Sequence[Start], similar: Sequence[SimilarStart]) -> list[Start]:
    """The starts that have the TUNABLES of a similar task's kernel, with the parameters that were
    best there; the search may still try the skill's own parameters."""
    informed = [_informed(start, similar) for start in starts]
    rest = [
        s
        for s, better in zip(starts, informed, strict=True)
        if better is None or s.origin.kind != "skill"
    ]
    return [better for better in informed if better is not None] + rest


def _informed(start: Start, similar: Sequence[SimilarStart]) -> Start | None:
    own = _form(start.candidate)
    for kernel in similar:
        theirs = _form(kernel.candidate)
        if own is None or theirs is None or theirs[1] != own[1]:
            continue
        note = (
            f"{start.note}; with the parameters that were best for the similar task "
            f"{one_line(kernel.task)}"
        ).lstrip("; ")
        return (
            Start(start.candidate.with_params(theirs[0]), start.origin, note)
            if theirs[0] != own[0]
            else None
        )
    return None


def _form(candidate: Candidate) -> tuple[Params, Tunables] | None:
    """PARAMS and TUNABLES of a text that has both."""
    try:
        params, tunables = candidate.params(), candidate.tunables()
    except CandidateError:
        return None
    return (params, tunables) if params and tunables else None


def _unique(starts: list[Start]) -> list[Start]:
    seen: set[str] = set()
    kept: list[Start] = []
    for start in starts:
        if start.candidate.digest not in seen:
            seen.add(start.candidate.digest)
            kept.append(start)
    return kept
