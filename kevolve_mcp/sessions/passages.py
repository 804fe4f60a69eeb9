"""Which pages an ask includes: all known facts form the query, and the best passage of each kind is
taken, without pages that the author was given before; if room is left, also a page that one of them
links to."""

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

# one passage per kind; constraints count as guidance
SLOTS = ("guidance", "hardware", "document", "skill", "sample")
FIXING = ("guidance", "skill")  # kinds that help with a kernel that does not work yet
CANDIDATES = 40  # hits from which they are chosen
# depth in the tree up to which general pages come first, and special ones afterwards
EARLY = 3
# added to the score of a page that suits the phase: less than a matching word or signal adds
PREFERENCE = 0.25
# full-length passages that fit an ask; with fewer a link is followed
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
    """What is known when an ask is made. signals: those of the parents, the dominant one first.
    depth: the number of nodes above the next one. diagnosis: the evaluator's messages about the
    parents. features: those of the measuring processor, empty where they are not known."""

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
        """Return the query: names of operators, the role, the beginning of the diagnosis."""
        operators = [name.split(".")[1] for name in self.task.operators if "." in name]
        said = list(dict.fromkeys(_WORD.findall(self.diagnosis)))[:_DIAGNOSIS_WORDS]
        return " ".join([*self.signals, *operators, _ROLES.get(self.role, ""), *said])


@dataclass(frozen=True)
class Passages:
    """The chosen passages. new: what to show, best first. again: ids of pages that would have been
    chosen, but were shown before."""

    new: tuple[Excerpt, ...] = ()
    again: tuple[str, ...] = ()


def choose(
    library: Library, situation: Situation, had: Container[str], characters: int
) -> Passages:
    """Choose at most one passage for each of SLOTS, and one of a page that they link to, of at most
    `characters` each. had: keys of what was shown before, as `synthesis.shown` names them."""
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
    """The first page linked from a shown text that suits the situation and that the reader does not
    know yet; () for none."""
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
    """Why it is shown. A skill's use is only counted if the author names it."""
    return f"{hit.why}; name {hit.id} in the rationale if you use it" if is_skill else hit.why


def special(page: Page) -> bool:
    """Return whether a page is about few situations: one architecture, product or version, one
    pitfall, one finding."""
    return bool(
        page.role
        or page.products
        or page.versions
        or len(page.signals) == 1
        or any(":" in t for t in page.targets)
    )


def exact_target(target: str, environment: Environment | None) -> str:
    """Return the target with the architecture of the measuring device, if the target leaves it open
    and the device tells it."""
    if ":" in target or environment is None:
        return target
    named = _ARCHITECTURE.search(environment.device)
    known = environment.facts.get("architecture", "") if Target.parse(target).on_host else ""
    architecture = named[1] if named else known
    return f"{target}:{architecture}" if architecture else target


def features(target: str, environment: Environment | None) -> frozenset[str]:
    """Return the vector extensions of the measuring processor; empty for other kinds of target."""
    if environment is None or not Target.parse(target).on_host:
        return frozenset()
    return frozenset(environment.facts.get("vector", "").split())


def _kind(page: Page) -> str:
    return page.category if page.category in SLOTS else "guidance"


def _section(hit: Hit) -> str:
    """The section that fits best; the beginning instead of a section on how to verify success."""
    return "" if hit.section == "Verify" else hit.section


def holds(page: Page, target: str, known: frozenset[str]) -> bool:
    """Return whether a page applies to a target: not if it is only about certain architectures and
    the target's is unknown, and not for a processor without its features (known: see `features`).
    """
    elsewhere = ":" not in target and bool(page.targets) and all(":" in t for t in page.targets)
    return not elsewhere and (not known or known.issuperset(page.features))


def _fits(skill: Skill | None, situation: Situation) -> bool:
    """Whether a skill's pattern fits the task; a skill without a pattern is matched by its words
    only."""
    if skill is None or not skill.pattern:
        return True
    return not mismatch(skill, situation.task, situation.target, situation.language)
