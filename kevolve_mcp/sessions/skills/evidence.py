"""The evidence of two measured nodes: the effect of the change between them, or why it proves
nothing."""

from __future__ import annotations

from harness.types import Evaluation
from kevolve_mcp.errors import NotFound
from kevolve_mcp.quantities import times
from kevolve_mcp.search import ROOT, Node, Tree, assured
from kevolve_mcp.store import SessionRecord, SkillEvidence, Store

from ..trees import ids

PREDICTABLE = "output_predictable"  # the signal with which no figure is trusted


def find(tree: Tree, node_id: str) -> Node:
    """Return a node. Raises NotFound."""
    if node_id not in tree.by_id:
        raise NotFound(
            f"there is no node {node_id!r}", f"Nodes: {ids(tree.nodes[-10:]) or 'none yet'}."
        )
    return tree.by_id[node_id]


def parent_of(tree: Tree, node: Node, parent_id: str = "") -> Node | None:
    """Return the node to compare with, by default the first parent; None for the baseline. Raises
    NotFound."""
    if parent_id == ROOT or (not parent_id and not node.parents):
        return None
    return find(tree, parent_id or node.parents[0])


def measured(
    store: Store, session: SessionRecord, tree: Tree, node: Node, parent: Node | None
) -> SkillEvidence | None:
    """Return the gain over what was known (`to_beat`); None unless its interval lies above 1 even
    with the error of the judge's clock, all were measured on the same device, and no confirmation
    refuted one of them."""
    stored = store.evaluations.get(session.id, node.evaluation)
    known = to_beat(tree, node, parent)
    effect, between = effect_of(node, known)
    if (
        node.status != "correct"
        or not effect
        or between is None
        or between[0] <= 1 + _open(stored.evaluation)
    ):
        return None
    others = {
        each.id: store.evaluations.get(session.id, each.evaluation)
        for each in (parent, known)
        if each is not None
    }
    if any(_predictable(each.evaluation) for each in (stored, *others.values())):
        return None
    device = stored.evaluation.environment.device
    if any(each.evaluation.environment.device != device for each in others.values()):
        return None
    return SkillEvidence(
        session=session.id,
        node=node.id,
        parent=known.id if known else None,
        task=session.task,
        device=device,
        effect=effect,
        interval=between,
        evaluation=stored.id,
        parent_evaluation=others[known.id].id if known else "",
        # the author's forecast is a factor on the parent's figure, not on another's
        predicted=node.predicted_speedup if known == parent_of(tree, node) else None,
    )


def to_beat(tree: Tree, node: Node, parent: Node | None) -> Node | None:
    """Return what a node has to beat to prove a skill: of its parent, the best node inserted before
    it and the baseline (None) that over which its gain is least certain.

    Anyone can submit a slow parent, so a gain over it alone proves nothing. Earlier nodes that
    differ from this one only in parameters are left out, since they use the same idea, and so are
    those whose figures are not trusted."""
    earlier = (
        each
        for each in tree.nodes
        if each.seq < node.seq and each.family != node.family and PREDICTABLE not in each.signals
    )
    return min(
        (parent, Tree(tuple(earlier)).best(), None),
        key=lambda known: (effect_of(node, known)[1] or (0.0,))[0],
    )


def effect_of(node: Node, parent: Node | None) -> tuple[float | None, tuple[float, float] | None]:
    """Return F over the parent's F (over 1 without a parent) with its interval; None where it is
    not known, or where a confirmation refuted one of them."""
    if _refuted(node, parent) is not None:
        return None, None
    if parent is None:
        return node.fitness, node.interval
    return assured(node, parent)


def refusal(
    store: Store, session: SessionRecord, tree: Tree, node: Node, parent: Node | None
) -> str:
    """Return why `measured` finds nothing, as a sentence."""
    known = to_beat(tree, node, parent)
    against = known.id if known else "the baseline"
    if known is not None and known != parent:
        against = f"{known.id} (the best node before it)"
    stored = store.evaluations.get(session.id, node.evaluation)
    open_share = _open(stored.evaluation)
    if node.status != "correct":
        return f"{node.id} was not proved correct ({node.status})"
    if (wrong := _refuted(node, known)) is not None:
        return f"{wrong.id} was proved wrong when it was confirmed ({wrong.refuted})"
    if known is not None and known.score <= 0:
        return f"{known.id} has no figure to compare with ({known.status})"
    effect, between = effect_of(node, known)
    if not effect:
        return f"{node.id} was not timed"
    if between is None:
        return f"no interval is known for {node.id} against {against}"
    if 1 < between[0] <= 1 + open_share:
        return (
            f"by the error of the judge's clock, a call of {node.id} may take "
            f"{100 * open_share:.0f} % more, and the effect against {against} may be "
            f"{times(between[0])}"
        )
    both = [each for each in (node, parent) if each is not None]
    if any(
        _predictable(store.evaluations.get(session.id, each.evaluation).evaluation) for each in both
    ):
        return (
            f"an output of {node.id} is the same for all drawn inputs, or right if half of each is "
            "read, so no speed-up is trusted (output_predictable)"
        )
    if between[0] > 1:
        return f"{node.id} and what it was compared with were measured on different devices"
    return (
        f"the effect of {node.id} against {against} is not certain: {times(effect)}, interval "
        f"{between[0]:.3g} to {between[1]:.3g}"
    )


def _refuted(node: Node, parent: Node | None) -> Node | None:
    return next((each for each in (node, parent) if each is not None and each.refuted), None)


def _predictable(evaluation: Evaluation) -> bool:
    return any(signal.name == PREDICTABLE for signal in evaluation.signals)


def _open(evaluation: Evaluation) -> float:
    """The largest share over all cases by which a call may be longer than its figure within the
    error of the judge's clock."""
    return max(
        (c.open_us / c.latency_us for c in evaluation.cases if c.open_us and c.latency_us),
        default=0.0,
    )
