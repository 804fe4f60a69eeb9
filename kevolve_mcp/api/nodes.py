"""One node of a tree as every surface shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.types import Status
from kevolve_mcp.search import Change, Meeting, Origin, Tree, versus_parent
from kevolve_mcp.search import Node as Domain


@dataclass(frozen=True)
class Node:
    """A candidate in a tree, with its results."""

    id: str
    """Its name in the session, e.g. "n17"."""
    parents: tuple[str, ...] = ()
    """The nodes it derives from; none for a start."""
    status: Status = "correct"
    """Its evaluation's."""
    fitness: float | None = None
    """Its evaluation's F."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of F."""
    eligible: bool = False
    """Whether it may win."""
    role: str = "improve"
    """The role of the ask that it answers."""
    origin: Origin | None = None
    """Where a start came from; null for nodes that the search made."""
    hypothesis: str = ""
    """What was changed and why, in its author's words."""
    predicted_speedup: float | None = None
    """The speed-up over its parent that its author expected."""
    versus_parent: float | None = None
    """Its speed over the best parent's."""
    versus_parent_interval: tuple[float, float] | None = None
    """The 95 % interval of it."""
    versus_parent_change: Change | None = None
    """Which change against the parent is certain: improved, regressed or equivalent; inconclusive
    where none is, null without a parent."""
    signals: tuple[str, ...] = ()
    """The names of its signals."""
    params: dict[str, Any] = field(default_factory=dict)
    """Its parameters by name."""
    structure: str = ""
    """Equal for nodes that differ only in parameters."""
    evaluation_id: str = ""
    """The evaluation with its figures."""
    ask_id: str = ""
    """The ask that it answers, "" for none."""
    candidate: str = ""
    """SHA-256 of the candidate's text and language."""
    created: float = 0.0
    """Seconds of the epoch."""
    approved_by: str = ""
    """Who approved it in a review."""
    met: Meeting | None = None
    """Its head-to-head result against the best node at that time; null where it was clearly faster
    or slower."""
    provenance: str = ""
    """ "parameter search" where no author wrote it."""


def node(tree: Tree, domain: Domain) -> Node:
    """Show a node with its change against the best of its parents; "improved" or "regressed" is
    among the signals where it is certain."""
    effect = versus_parent(tree, domain)
    certain = effect.change in ("improved", "regressed") and effect.change not in domain.signals
    return Node(
        id=domain.id,
        parents=domain.parents,
        status=domain.status,
        fitness=domain.fitness,
        interval=domain.interval,
        eligible=domain.eligible,
        role=domain.role,
        origin=domain.origin,
        hypothesis=domain.hypothesis,
        predicted_speedup=domain.predicted_speedup,
        versus_parent=effect.ratio,
        versus_parent_interval=effect.interval,
        versus_parent_change=effect.change if domain.parents else None,
        signals=(*((effect.change,) if certain else ()), *domain.signals),
        params=dict(domain.params),
        structure=domain.structure,
        evaluation_id=domain.evaluation,
        ask_id=f"a{domain.ask}" if domain.ask is not None else "",
        candidate=domain.candidate,
        created=domain.created,
        approved_by=domain.approved_by,
        met=domain.met,
        provenance=str(domain.author) if domain.automatic else "",
    )


def best(tree: Tree) -> Node | None:
    """Show the best node, None where no node may win."""
    leader = tree.best()
    return node(tree, leader) if leader is not None else None


def lineage(tree: Tree, domain: Domain) -> tuple[Node, ...]:
    """Show the path from the root to a node along first parents."""
    return tuple(node(tree, n) for n in tree.trajectory(domain.id))
