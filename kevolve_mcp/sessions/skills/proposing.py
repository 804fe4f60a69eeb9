"""Skills proposed from measured nodes: worded by an author, or distilled from the winner's lineage
when a session ends."""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import replace

from harness.types import Task
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.search import Node, Tree
from kevolve_mcp.store import NewSkill, SessionRecord, SkillEvidence, SkillRecord, Store
from knowledge import Skill

from ..shared import UseCase
from ..types import SkillRequest
from . import code, deciding, evidence, learned, patterns, views, wording

MAX_PROPOSED = 3
MAX_TITLE = 80
MAX_CHANGE = 60  # lines of the difference that is shown as the minimal code


class Proposing(UseCase):
    async def record_skill(self, request: SkillRequest, *, author: str = "") -> api.Skill:
        """A proposal with measured evidence; what is known already gets the evidence instead.
        Raises NotFound, UsageError with the reason where the effect is not proved or the wording
        does not do, and Conflict where a skill that comes with the program says it."""
        shared = self._shared
        store = await shared.store()

        def work() -> api.Skill:
            session = store.sessions.get(request.session_id)
            task = store.tasks.get(session.task)
            tree = shared.trees.load(store, session.id)
            node = evidence.find(tree, request.node_id)
            parent = evidence.parent_of(tree, node, request.parent_id)
            effect = evidence.measured(store, session, node, parent)
            if effect is None:
                raise UsageError(
                    evidence.refusal(store, session, node, parent),
                    "Only a measured, certain effect makes a skill: submit the pair again, or "
                    "choose other nodes.",
                )
            names = ("title", "mechanism", "preconditions", "counter_indications", "code")
            wording.check({name: getattr(request, name) for name in names if name != "code"})
            code.check_excerpt(request.code)
            source = store.candidates.get(node.candidate).source
            _check_held(request.code, source, node)
            pattern = patterns.checked(request.pattern)
            patterns.check_fits(pattern, task, session.target, session.language)
            new = _new(store, session, task, node, parent)
            new = replace(
                new,
                **{name: getattr(request, name).strip() or getattr(new, name) for name in names},
            )
            new = replace(new, matches=pattern or new.matches)
            _check_shipped(
                new, [s for s in shared.library().skills() if not learned.is_learned(s.id)]
            )
            kept, fresh = store.skills.propose(
                new, [effect], author=author, same=patterns.same_as(new, task, source)
            )
            deciding.settle(store, shared.settings.skills)
            return replace(views.brief(store, kept.id), merged=not fresh)

        return await shared.thread(work)


def propose_from(
    store: Store,
    session: SessionRecord,
    task: Task,
    tree: Tree,
    winner: Node,
    shipped: tuple[Skill, ...] = (),
) -> tuple[list[str], list[str]]:
    """Proposals from the winner's lineage, and why other steps gave none: steps with a hypothesis
    and a certain effect, the largest first.

    Not steps that only chose other parameters: which values win belongs to one machine and is no
    pattern. A step that applied a skill is evidence for that one. Told again, it proposes nothing
    twice."""
    applied = defaultdict[str, list[str]](list)
    for use in store.skill_uses.uses(session.id):
        if use.how != "shown":
            applied[use.node].append(use.skill)
    learned_ones = {learned.page_id(s.id): s for s in store.skills.list()}
    names, notes = list[str](), list[str]()
    for effect, node, parent in _steps(store, session, tree, winner)[:MAX_PROPOSED]:
        source = store.candidates.get(node.candidate).source
        counted = False
        for skill in applied[node.id]:
            known = learned_ones.get(skill)
            if known and (why := _no_evidence(known, session, task, source)):
                notes.append(f"{node.id} names {skill}, which gets no evidence: {why}")
                continue
            if known:
                store.skills.add_evidence(known.id, [effect])
            notes.append(f"{node.id} applied {skill}: it counts for that skill")
            counted = True
        if counted:
            continue
        words = wording.plain_sentences(node.hypothesis)[: wording.MAX_TEXT]
        if not words:
            notes.append(
                f"{node.id}: its hypothesis has no sentence without figures or paths; its author "
                "can word a skill"
            )
            continue
        title = words.split(". ")[0].rstrip(".")[:MAX_TITLE]
        new = replace(_new(store, session, task, node, parent), title=title, mechanism=words)
        try:
            _check_shipped(new, shipped)
        except Conflict as error:
            notes.append(f"{node.id}: {error.message}")
            continue
        kept, _ = store.skills.propose(
            new,
            [effect],
            author="session_finish",
            same=patterns.same_as(new, task, source),
        )
        names.append(kept.id)
    return list(dict.fromkeys(names)), notes


def _no_evidence(known: SkillRecord, session: SessionRecord, task: Task, source: str) -> str:
    """Why a kernel of this text, measured on the task, proves nothing of the skill; "" where it
    does."""
    from kevolve_mcp.synthesis.skills import mismatch

    if why := mismatch(learned.as_skill(known, ()), task, session.target, session.language):
        return why
    return "" if patterns.is_evidence(known, source) else "the kernel does not hold its code"


def _steps(
    store: Store, session: SessionRecord, tree: Tree, winner: Node
) -> list[tuple[SkillEvidence, Node, Node]]:
    steps = []
    for node in tree.trajectory(winner.id):
        parent = tree.by_id.get(node.parents[0]) if node.parents else None
        rewritten = parent is not None and (
            not node.structure or node.structure != parent.structure
        )
        effect = (
            evidence.measured(store, session, node, parent)
            if rewritten and node.hypothesis
            else None
        )
        if (
            effect is not None
            and parent is not None
            and effect.interval is not None
            # what a finish proposes by itself moves more than the device does between two timings
            and effect.interval[0] > node.margin
        ):
            steps.append((effect, node, parent))
    return sorted(steps, key=lambda step: -step[0].effect)


def _new(
    store: Store, session: SessionRecord, task: Task, node: Node, parent: Node | None
) -> NewSkill:
    """What the pair itself says; title and mechanism are still to be worded. Comments that a
    skill's text may not hold are left out of the kernels."""
    sources = {"kernel.py": store.candidates.get(node.candidate).source}
    if parent is not None:
        sources["parent.py"] = store.candidates.get(parent.candidate).source
    passed = {name: code.without_problems(text) for name, text in sources.items()}
    files = {name: text for name, text in passed.items() if text}
    before = parent.signals if parent else node.signals
    return NewSkill(
        title="",
        mechanism="",
        preconditions=f"Seen where the evaluation found {', '.join(before)}." if before else "",
        code=_change(files["parent.py"], files["kernel.py"]) if len(files) == 2 else "",
        matches=patterns.of_task(task),
        target=session.target,
        language=session.language,
        signals=before,
        files=files,
    )


def _change(parent: str, kernel: str) -> str:
    """The difference as a short listing; "" where it cannot be shown as code in a page."""
    lines = list(
        difflib.unified_diff(
            parent.splitlines(), kernel.splitlines(), "parent.py", "kernel.py", n=1, lineterm=""
        )
    )
    shown = lines[:MAX_CHANGE] + (
        [f"… {len(lines) - MAX_CHANGE} more lines"] if len(lines) > MAX_CHANGE else []
    )
    text = "\n".join(shown)[: wording.MAX_TEXT]
    try:
        code.check_excerpt(text)
    except UsageError:
        return ""  # kernel.py and parent.py are kept beside it
    return text


def _check_held(excerpt: str, source: str, node: Node) -> None:
    """Raises UsageError unless the code that an author gives stands in the kernel."""
    if excerpt.strip() and (line := code.missing(excerpt, source)):
        raise UsageError(
            f"code is not in the kernel of {node.id}: {line[:60]!r}",
            "Show lines of that kernel in their order (comments and white space do not count), or "
            "leave code out: then the difference of the two nodes is shown.",
        )


def _check_shipped(new: NewSkill, shipped: list[Skill] | tuple[Skill, ...]) -> None:
    """Raises Conflict where a skill that comes with the program says the same."""
    for skill in shipped:
        page = skill.page
        if new.language in page.languages and (
            page.title == new.title
            or patterns.alike(f"{page.title} {page.summary}", f"{new.title} {new.mechanism}")
        ):
            raise Conflict(
                f"{skill.id} says this already: {page.title}",
                f"Its uses are counted where it is shown and named: write {skill.id} in the "
                "rationale of a node that answers an ask which shows it.",
            )
