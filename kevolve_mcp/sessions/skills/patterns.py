"""The pattern of tasks that a skill fits, and when two skills are the same. `synthesis.skills`
defines the pattern's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from harness.types import Target, Task
from kevolve_mcp.errors import UsageError
from kevolve_mcp.store import NewSkill, SkillRecord
from knowledge import Page, Skill
from knowledge.families import FAMILIES, of_operators

from . import code

FIELDS = ("operators", "without", "only", "families", "dtypes")
# families that nearly every task has: they mean nothing where there are others
PLAIN = frozenset({"elementwise", "layout"})
MAX_WORDS = 64
ALIKE = 0.6  # share of common words (Jaccard) from which two texts describe the same skill
FEW = 3  # words: a shorter text is compared as a whole
_WORD = re.compile(r"[^\W_]{2,}")
_OPERATOR = re.compile(r"[a-z_]+\.[\w.*]+(?:\s*\|\s*[a-z_]+\.[\w.*]+)*")
_DTYPE = re.compile(r"[a-z]+[0-9]*(?:_?[a-z0-9]+)*")
_COMMON_WORDS = (
    "the and for with that this into from one its are was not but than then each every where when "
    "is in of to"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def of_task(task: Task) -> dict[str, Any]:
    """Return the default pattern of a skill found on this task: its characteristic operator
    families and its dtypes."""
    families = of_operators(task.operators)
    telling = [f for f in families if f not in PLAIN] or list(families)
    dtypes = dict.fromkeys(s.dtype for c in task.visible_cases for s in c.inputs)
    pattern = {"families": telling, "dtypes": list(dtypes)}
    return {name: words for name, words in pattern.items() if words}


def checked(pattern: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pattern with every value as a list. Raises UsageError naming the field."""
    checked_pattern: dict[str, Any] = {}
    for name, value in pattern.items():
        if name not in FIELDS:
            raise UsageError(
                f"pattern has an unknown field {name!r:.40}", f"Accepted: {', '.join(FIELDS)}."
            )
        words = [value] if isinstance(value, str) else value
        if (
            not isinstance(words, (list, tuple))
            or len(words) > MAX_WORDS
            or not all(isinstance(w, str) for w in words)
        ):
            raise UsageError(
                f"{name} of the pattern must be a list of at most {MAX_WORDS} words",
                f'For example {{"{name}": [...]}}.',
            )
        for word in words:
            _check_word(name, word)
        if words:
            checked_pattern[name] = list(words)
    return checked_pattern


def _check_word(name: str, word: str) -> None:
    if name == "families":
        for family in word.split("|"):
            if family.strip() not in FAMILIES:
                raise UsageError(
                    f"{family.strip()!r:.60} is not an operator family",
                    f"Accepted: {', '.join(sorted(FAMILIES))}.",
                )
    elif not (_DTYPE if name == "dtypes" else _OPERATOR).fullmatch(word) or len(word) > 400:
        example = (
            "float32"
            if name == "dtypes"
            else "aten.mean|aten.sum, or aten.add* for names that begin so"
        )
        raise UsageError(
            f"{word!r:.60} is not valid in {name} of a pattern", f"Write, for example, {example}."
        )


def check_fits(pattern: Mapping[str, Any], task: Task, target: str, language: str) -> None:
    """Check that the pattern fits the task that it was found on. Raises UsageError."""
    if why := _misfit(pattern, task, target, language):
        raise UsageError(
            f"the pattern does not fit the session's own task {task.name}: {why}",
            "Fix the pattern, or leave it out.",
        )


def _misfit(pattern: Mapping[str, Any], task: Task, target: str, language: str) -> str:
    from kevolve_mcp.synthesis.skills import mismatch

    page = Page("skills/new", "new", "skill", "new", "")
    return mismatch(Skill("skills/new", page, pattern=dict(pattern)), task, target, language)


def same_as(
    new: NewSkill, task: Task | None = None, source: str = ""
) -> Callable[[SkillRecord], bool]:
    """Return a test whether a known skill is the same as the new one: for the same kind of device
    and language, with a common operator family, and equal in code or similar in title and
    mechanism. If the new one was measured here, the other operators of the known pattern must have
    run in its task, and its kernel must contain the known code, since it proves nothing about code
    that it lacks.

    source: the kernel that was measured on the task."""
    family = Target.parse(new.target).family
    about = families(new.matches) or (families(of_task(task)) if task else frozenset())

    def same(known: SkillRecord) -> bool:
        if known.language != new.language or Target.parse(known.target).family != family:
            return False
        named = families(known.matches)
        if named and not about & named and (about or task):
            return False
        if task and (_runs_others(known, task) or not is_evidence(known, source)):
            return False
        if new.code and known.code.strip() == new.code.strip():
            return True
        return known.title == new.title or alike(
            f"{known.title} {known.mechanism}", f"{new.title} {new.mechanism}"
        )

    return same


def _runs_others(known: SkillRecord, task: Task) -> str:
    operators: dict[str, Any] = {
        n: known.matches[n] for n in ("operators", "without", "only") if n in known.matches
    }
    return _misfit(operators, task, known.target, known.language)


def is_evidence(known: SkillRecord, source: str) -> bool:
    """Return whether a kernel of this text can be evidence: it contains the code that an author
    gave. A difference taken from a pair is only an example, from which other tasks' kernels
    differ."""
    return (
        not known.code
        or known.code.startswith(code.DIFFERENCE)
        or not code.missing(known.code, source)
    )


def families(pattern: Mapping[str, Any]) -> frozenset[str]:
    """Return the operator families that a pattern names."""
    return frozenset(
        word.strip() for group in pattern.get("families", ()) for word in group.split("|")
    )


def alike(one: str, other: str) -> bool:
    """Return whether two texts have most words in common. Only the first six letters of a word
    count, so that endings do not."""
    a, b = _words(one), _words(other)
    if min(len(a), len(b)) < FEW:
        return bool(a) and a == b
    return len(a & b) / len(a | b) >= ALIKE


def _words(text: str) -> set[str]:
    return {w[:6] for w in _WORD.findall(text.lower()) if w not in _COMMON}
