"""Which pages an ask brings: the query is all that is known, one passage of each kind is taken,
none that the author had before; where room is left, a page of any kind that one of them links
to."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from harness.types import Environment, Target, Task
from kevolve_mcp.search import Role
from kevolve_mcp.synthesis import Excerpt
from kevolve_mcp.synthesis.shown import page_key
from kevolve_mcp.synthesis.skills import mismatch
from knowledge import Hit, Library, Page, Skill
from knowledge.search import FAINT

# one passage of each; constraints count as guidance
SLOTS = ("guidance", "hardware", "document", "skill", "sample")
FIXING = ("guidance", "skill")  # those of use to a kernel that does not work yet
CANDIDATES = 40  # hits among which they are chosen
# nodes above the next one up to which pages of wide use come first, and special ones afterwards
EARLY = 3
# added to the score of a page that suits the phase: less than a word or a signal that fits is worth
PREFERENCE = 0.25
# passages of full length that an ask has room for; below that a link is followed
ROOM = 3
_ROLES: dict[Role, str] = {
    "improve": "bottleneck",
    "repair": "error",
    "tune": "tuning parameters",
    "crossover": "combine fusion",
}
_ARCHITECTURE = re.compile(r"\b(sm_\d+[a-z]?|gfx[0-9a-f]+)\b")
_WORD = re.compile(r"[A-Za-z_]{3,}")
_DIAGNOSIS_WORDS = 12


@dataclass(frozen=True)
class Situation:
    """What is known when a kernel is asked for. signals: of the parents, the dominant one first.
    depth: nodes above the next one. diagnosis: what the evaluator said about the parents, in
    words. features: of the processor that measures; empty where they are not known."""

    task: Task
    target: str
    language: str
    role: Role
    depth: int = 0
    signals: tuple[str, ...] = ()
    diagnosis: str = ""
    features: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """The query: names of operators, the role, the beginning of the diagnosis."""
        operators = [name.split(".")[1] for name in self.task.operators if "." in name]
        said = list(dict.fromkeys(_WORD.findall(self.diagnosis)))[:_DIAGNOSIS_WORDS]
        return " ".join([*self.signals, *operators, _ROLES.get(self.role, ""), *said])


@dataclass(frozen=True)
class Passages:
    """new: what to show, best first. again: ids of pages that would have been chosen, had they not
    been shown before."""

    new: tuple[Excerpt, ...] = ()
    again: tuple[str, ...] = ()


def choose(
    library: Library, situation: Situation, had: Container[str], characters: int
) -> Passages:
    """At most one passage for each of SLOTS and, whatever its kind, one of a page that they link
    to, of at most `characters` each. had: keys of what was shown, as `synthesis.shown` names it."""
    s = situation
    skills = {skill.id: skill for skill in library.skills()}
    results = library.search(
        s.words, s.signals, s.target, s.language, CANDIDATES, operators=tuple(s.task.operators)
    ).hits
    late = s.depth > EARLY
    ranked = sorted(
        results, key=lambda h: -(h.score + PREFERENCE * (special(library.page(h.id)) == late))
    )
    wanted = FIXING if s.role == "repair" else SLOTS
    chosen: dict[str, Hit] = {}
    again: list[str] = []
    suited: dict[str, Hit] = {}
    for hit in ranked:
        page = library.page(hit.id)
        kind = _kind(page)
        if (
            kind not in wanted
            or hit.score < FAINT
            or not holds(page, s.target, s.features)
            or not _fits(skills.get(hit.id), s)
        ):
            continue
        suited[hit.id] = hit
        if kind in chosen:
            continue
        if page_key(hit.id) in had:
            again.append(hit.id)
            continue
        chosen[kind] = hit
    new = tuple(
        Excerpt(
            h.id, h.title, library.passage(h.id, _section(h), characters), _why(h, h.id in skills)
        )
        for h in chosen.values()
    )
    if sum(len(excerpt.text) for excerpt in new) <= (ROOM - 1) * characters:
        new += _linked(library, new, suited, had, characters)
    return Passages(new, tuple(again[:3]))


def _linked(
    library: Library,
    shown: Sequence[Excerpt],
    suited: Mapping[str, Hit],
    had: Container[str],
    characters: int,
) -> tuple[Excerpt, ...]:
    """The first page that a shown text links to, of those that suit the situation and that its
    reader does not know; () for none."""
    known = {excerpt.page_id for excerpt in shown}
    for excerpt in shown:
        for page_id in library.page(excerpt.page_id).links:
            hit = suited.get(page_id)
            if (
                hit is None
                or page_id in known
                or page_key(page_id) in had
                or f"]({page_id})" not in excerpt.text
            ):
                continue
            text = library.passage(page_id, _section(hit), characters)
            return (Excerpt(page_id, hit.title, text, f"a link of {excerpt.page_id}"),)
    return ()


def _why(hit: Hit, is_skill: bool) -> str:
    """Why it is shown; what came of a skill is counted where its user names it."""
    return f"{hit.why}; name {hit.id} in the rationale if you use it" if is_skill else hit.why


def special(page: Page) -> bool:
    """Whether a page is about few situations: one architecture, product or version, one trap, one
    finding."""
    return bool(
        page.role
        or page.products
        or page.versions
        or len(page.signals) == 1
        or any(":" in t for t in page.targets)
    )


def exact_target(target: str, environment: Environment | None) -> str:
    """The target with the architecture of the device that measures, where the target leaves it open
    and the device says it."""
    if ":" in target or environment is None:
        return target
    named = _ARCHITECTURE.search(environment.device)
    known = environment.facts.get("architecture", "") if Target.parse(target).on_host else ""
    architecture = named[1] if named else known
    return f"{target}:{architecture}" if architecture else target


def features(target: str, environment: Environment | None) -> frozenset[str]:
    """Vector extensions of the processor that measures; empty for a target that is none."""
    if environment is None or not Target.parse(target).on_host:
        return frozenset()
    return frozenset(environment.facts.get("vector", "").split())


def _kind(page: Page) -> str:
    return page.category if page.category in SLOTS else "guidance"


def _section(hit: Hit) -> str:
    """The section that fits best; the beginning in place of the one that tells how to see that it
    worked."""
    return "" if hit.section == "Verify" else hit.section


def holds(page: Page, target: str, known: frozenset[str]) -> bool:
    """Whether what a page says holds there: not where it is about architectures alone and nobody
    knows that of the target, and not for a processor without its features (known: see `features`).
    """
    elsewhere = ":" not in target and bool(page.targets) and all(":" in t for t in page.targets)
    return not elsewhere and (not known or known.issuperset(page.features))


def _fits(skill: Skill | None, situation: Situation) -> bool:
    """Whether a skill's pattern is that of the task; one without a pattern is judged by its words
    alone."""
    if skill is None or not skill.pattern:
        return True
    return not mismatch(skill, situation.task, situation.target, situation.language)
