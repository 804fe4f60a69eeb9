"""Skills proposed from measured nodes: a pattern is worth keeping only with an effect that is certain."""

from __future__ import annotations

from harness.types import Evaluation, Task
from kevolve_mcp.errors import NotFound, UsageError
from kevolve_mcp.search import ROOT, Node, Tree
from kevolve_mcp.store import NewSkill, SessionRecord, SkillEvidence, Store

from . import views
from .shared import Shared
from .types import SkillRequest, SkillView

MAX_PROPOSED = 3
MAX_TEXT = 4000
MINIMUM = 1.02  # what a finish proposes by itself must move more than the margin of the timing verdicts


async def record(shared: Shared, request: SkillRequest, author: str = "") -> SkillView:
    """Propose it. Raises NotFound, and UsageError with the reason where the effect is not proved."""
    store = await shared.store()

    def work() -> SkillView:
        session = store.sessions.get(request.session_id)
        tree = shared.trees.load(store, session.id)
        node = _node(tree, request.node_id)
        parent = _parent(tree, node, request.parent_id)
        found = _evidence(store, session, node, parent)
        if found is None:
            raise UsageError(
                _refusal(node, parent, _open(store.evaluations.get(node.evaluation).evaluation)),
                "Only a measured, certain effect makes a skill: submit the pair again, or choose other nodes.",
            )
        for name in ("title", "mechanism", "preconditions", "pattern"):
            text = getattr(request, name)
            if len(text) > MAX_TEXT or (name in ("title", "mechanism") and not text.strip()):
                raise UsageError(
                    f"{name} is {'empty' if not text.strip() else f'longer than {MAX_TEXT} characters'}",
                    "Say it in a few sentences.",
                )
        new = NewSkill(
            title=request.title.strip(),
            mechanism=request.mechanism,
            preconditions=request.preconditions,
            pattern=request.pattern,
            target=session.target,
            language=session.language,
            signals=parent.signals if parent else node.signals,
            files={"kernel.py": store.candidates.get(node.candidate).source},
        )
        return view(store, store.skills.propose(new, [found], author=author).id)

    return await shared.thread(work)


def propose_from(store: Store, session: SessionRecord, task: Task, tree: Tree, winner: Node) -> list[str]:
    """Proposals from the winner's lineage: steps with a hypothesis and a certain effect, the largest first.

    Not steps that only chose other parameters: which values win belongs to one machine and is no pattern."""
    steps = []
    for node in tree.trajectory(winner.id):
        parent = tree.by_id.get(node.parents[0]) if node.parents else None
        rewritten = parent is not None and (not node.structure or node.structure != parent.structure)
        found = _evidence(store, session, node, parent) if rewritten and node.hypothesis else None
        if found is not None and parent is not None and found.interval is not None and found.interval[0] > MINIMUM:
            steps.append((found, node, parent))
    steps.sort(key=lambda step: -step[0].effect)
    names = []
    for found, node, parent in steps[:MAX_PROPOSED]:
        new = NewSkill(
            title=_title(node, parent, task),
            mechanism=node.hypothesis,
            preconditions=_conditions(task, parent),
            pattern="The change from parent.py to kernel.py.",
            target=session.target,
            language=session.language,
            signals=parent.signals,
            files={
                "kernel.py": store.candidates.get(node.candidate).source,
                "parent.py": store.candidates.get(parent.candidate).source,
            },
        )
        names.append(store.skills.propose(new, [found], author="session_finish").id)
    return names


def view(store: Store, name: str) -> SkillView:
    """Raises NotFound."""
    skill = store.skills.get(name)
    first = store.skills.evidence(name)[0]
    where = f"{first.session}: {first.node} against {first.parent or 'the baseline'} on {first.device}"
    return SkillView(skill.id, skill.title, skill.state, first.effect, first.interval or (first.effect, first.effect), where)


def _node(tree: Tree, node_id: str) -> Node:
    if node_id not in tree.by_id:
        raise NotFound(f"there is no node {node_id!r}", f"Nodes: {views.ids(tree.nodes[-10:]) or 'none yet'}.")
    return tree.by_id[node_id]


def _parent(tree: Tree, node: Node, parent_id: str) -> Node | None:
    """The node to compare with; None for the baseline."""
    if parent_id == ROOT or (not parent_id and not node.parents):
        return None
    return _node(tree, parent_id or node.parents[0])


def _evidence(store: Store, session: SessionRecord, node: Node, parent: Node | None) -> SkillEvidence | None:
    """The measured effect, None unless its interval lies above 1, whatever the judge's clock leaves open, and both were measured on one
    device."""
    found = store.evaluations.get(node.evaluation)
    effect, between = (node.fitness, node.interval) if parent is None else views.effect(node, parent)
    if node.status != "correct" or not effect or between is None or between[0] <= 1 + _open(found.evaluation):
        return None
    other = store.evaluations.get(parent.evaluation) if parent else None
    device = found.evaluation.environment.device
    if other is not None and other.evaluation.environment.device != device:
        return None
    return SkillEvidence(
        session=session.id,
        node=node.id,
        parent=parent.id if parent else None,
        task=session.task,
        device=device,
        effect=effect,
        interval=between,
        evaluation=found.id,
        parent_evaluation=other.id if other else "",
    )


def _open(evaluation: Evaluation) -> float:
    """By what share a call may be longer than its figure without the judge's clock showing it: the largest of all cases."""
    return max((c.open_us / c.latency_us for c in evaluation.cases if c.open_us and c.latency_us), default=0.0)


def _refusal(node: Node, parent: Node | None, open_share: float) -> str:
    against = parent.id if parent else "the baseline"
    if node.status != "correct":
        return f"{node.id} was not proved correct ({node.status})"
    if parent is not None and parent.score <= 0:
        return f"{parent.id} has no figure to compare with ({parent.status})"
    effect, between = (node.fitness, node.interval) if parent is None else views.effect(node, parent)
    if not effect:
        return f"{node.id} was not timed"
    if between is None:
        return f"no interval is known for {node.id} against {against}"
    if 1 < between[0] <= 1 + open_share:
        return (
            f"the judge's clock leaves open whether a call of {node.id} takes {100 * open_share:.0f} % more, and the effect against {against} may be "
            f"{between[0]:.3g}x"
        )
    if between[0] > 1:
        return f"{node.id} and {against} were measured on different devices"
    return (
        f"the effect of {node.id} against {against} is not certain: {effect:.3g}x, interval {between[0]:.3g} to {between[1]:.3g}"
    )


def _title(node: Node, parent: Node, task: Task) -> str:
    line = node.hypothesis.strip().splitlines()[0]
    return f"{task.name}: {line[:80]}"


def _conditions(task: Task, parent: Node) -> str:
    return f"Task {task.name}: operators {', '.join(task.operators)}; signals before: {', '.join(parent.signals) or 'none'}."
