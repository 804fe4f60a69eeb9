"""Proposing skills from measured nodes: described by an author, or taken from the winner's lineage
when a session ends."""

from __future__ import annotations

import difflib
import textwrap
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
MAX_CHANGE = 60  # lines of the difference that are shown as code


class Proposing(UseCase):
    async def record_skill(self, request: SkillRequest, *, author: str = "") -> api.Skill:
        """Record a proposal with measured evidence; a known skill gets the evidence instead. Raises
        NotFound, UsageError with the reason where the effect is not proved or the text is not
        allowed, and Conflict where a skill that comes with the program says the same."""
        shared = self._shared
        store = await shared.store()

        def work() -> api.Skill:
            session = store.sessions.get(request.session_id)
            task = store.tasks.get(session.task)
            tree = shared.trees.load(store, session.id)
            node = evidence.find(tree, request.node_id)
            parent = evidence.parent_of(tree, node, request.parent_id)
            effect = evidence.measured(store, session, tree, node, parent)
            if effect is None:
                raise UsageError(
                    evidence.refusal(store, session, tree, node, parent),
                    "A skill needs a certain gain over the baseline, the parent and the best node "
                    "before it: submit the pair again, or choose other nodes.",
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
    """Propose skills from steps of the winner's lineage that have a hypothesis and a certain
    effect, the largest first; return them and why other steps gave none.

    Steps that only chose other parameters are skipped, since the best values depend on the machine.
    A step that applied a skill is evidence for that skill. Repeated, it proposes nothing twice."""
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
            notes.append(f"{node.id} applied {skill}: it counts as evidence for that skill")
            counted = True
        if counted:
            continue
        words = wording.plain_sentences(node.hypothesis)[: wording.MAX_TEXT]
        if not words:
            notes.append(
                f"{node.id}: its hypothesis has no sentence without figures or paths; its author "
                "can describe a skill"
            )
            continue
        first = words.split(". ")[0].rstrip(".")
        title = textwrap.shorten(first, MAX_TITLE, placeholder="") or first[:MAX_TITLE]
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
    """Why a kernel of this text, measured on the task, is no evidence for the skill; "" where it
    is."""
    from kevolve_mcp.synthesis.skills import mismatch

    if why := mismatch(learned.as_skill(known, ()), task, session.target, session.language):
        return why
    return "" if patterns.is_evidence(known, source) else "the kernel does not contain its code"


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
            evidence.measured(store, session, tree, node, parent)
            if rewritten and node.hypothesis
            else None
        )
        if (
            effect is not None
            and parent is not None
            and effect.interval is not None
            # an automatic proposal needs an effect above the device's margin
            and effect.interval[0] > node.margin
        ):
            steps.append((effect, node, parent))
    return sorted(steps, key=lambda step: -step[0].effect)


def _new(
    store: Store, session: SessionRecord, task: Task, node: Node, parent: Node | None
) -> NewSkill:
    """A skill from the pair, whose title and mechanism are still missing. Comments that are not
    allowed are left out of the kernels."""
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
    """The difference as a short listing, "" where it cannot be shown as code in a page."""
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
        return ""  # kernel.py and parent.py are kept in any case
    return text


def _check_held(excerpt: str, source: str, node: Node) -> None:
    """Check that the code that an author gives is in the kernel. Raises UsageError."""
    if excerpt.strip() and (line := code.missing(excerpt, source)):
        raise UsageError(
            f"code is not in the kernel of {node.id}: {line[:60]!r}",
            "Give lines of that kernel in their order (comments and white space do not count), or "
            "leave code out to show the difference of the two nodes.",
        )


def _check_shipped(new: NewSkill, shipped: list[Skill] | tuple[Skill, ...]) -> None:
    """Check that no skill that comes with the program says the same. Raises Conflict."""
    for skill in shipped:
        page = skill.page
        if new.language in page.languages and (
            page.title == new.title
            or patterns.alike(f"{page.title} {page.summary}", f"{new.title} {new.mechanism}")
        ):
            raise Conflict(
                f"{skill.id} already says this: {page.title}",
                f"To count its use, write {skill.id} in the rationale of a node that answers an "
                "ask which shows it.",
            )
