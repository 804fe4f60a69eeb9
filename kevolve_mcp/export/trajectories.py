"""Root-to-leaf paths of a session's tree as training data: (context, action, feedback, reward), one
JSON line a path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.types import Candidate, Evaluation, ParamValue, to_json
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.tree import Tree
from knowledge.documents import without_documents

from .files import replace_file


@dataclass(frozen=True)
class TrajectoryAction:
    """What the author did. origin: where a borrowed start came from, None for the author's own
    work."""

    role: str
    source: str
    language: str
    hypothesis: str = ""
    rationale: str = ""
    predicted_speedup: float | None = None
    params: dict[str, ParamValue] = field(default_factory=dict)
    origin: str | None = None


@dataclass(frozen=True)
class Feedback:
    """What came back. signals: name -> the sentence with the numbers."""

    status: str
    message: str
    signals: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrajectoryStep:
    """context: the text of the ask without passages of a person's documents, empty for a node told
    without one. reward: fitness; 0 for anything not proved correct, None where nothing was timed.
    gain: reward over the parent's, None where either lacks one."""

    node: str
    context: str
    action: TrajectoryAction
    feedback: Feedback
    reward: float | None
    gain: float | None


@dataclass(frozen=True)
class Trajectory:
    """best: the highest reward on the path."""

    session: str
    task: str
    target: str
    leaf: str
    best: float
    steps: tuple[TrajectoryStep, ...]


def trajectories(
    tree: Tree,
    *,
    session: str,
    task: str,
    target: str,
    candidates: Mapping[str, Candidate],
    evaluations: Mapping[str, Evaluation],
    shown: Mapping[int, str],
) -> tuple[Trajectory, ...]:
    """One path for each node without children, in the order of insertion; failures included, since
    they teach, too.

    candidates: by digest. evaluations: by evaluation id. shown: the text of each ask by its seq. A
    path follows first parents. Raises KeyError for a node whose candidate or evaluation is missing.
    """
    leaves = [node for node in tree.nodes if not tree.children(node.id)]
    return tuple(
        _path(tree, leaf, session, task, target, candidates, evaluations, shown) for leaf in leaves
    )


def _path(
    tree: Tree,
    leaf: Node,
    session: str,
    task: str,
    target: str,
    candidates: Mapping[str, Candidate],
    evaluations: Mapping[str, Evaluation],
    shown: Mapping[int, str],
) -> Trajectory:
    path = tree.trajectory(leaf.id)
    steps = tuple(
        _step(node, parent, candidates[node.candidate], evaluations[node.evaluation], shown)
        for node, parent in zip(path, (None, *path), strict=False)
    )
    return Trajectory(session, task, target, leaf.id, max(node.score for node in path), steps)


def _step(
    node: Node,
    parent: Node | None,
    candidate: Candidate,
    evaluation: Evaluation,
    shown: Mapping[int, str],
) -> TrajectoryStep:
    both = node.fitness is not None and parent is not None and parent.fitness
    return TrajectoryStep(
        node.id,
        without_documents(shown.get(node.ask, "")) if node.ask is not None else "",
        TrajectoryAction(
            node.role,
            candidate.source,
            candidate.language,
            node.hypothesis,
            node.rationale,
            node.predicted_speedup,
            dict(node.params),
            str(node.origin) if node.origin else None,
        ),
        Feedback(
            evaluation.status, evaluation.message, {s.name: s.message for s in evaluation.signals}
        ),
        node.fitness,
        node.score / parent.score if both and parent is not None else None,
    )


def write_trajectories(path: Path | str, records: tuple[Trajectory, ...]) -> Path:
    """Write one JSON object a line, complete or not at all. Raises StoreError."""
    file = Path(path).expanduser().absolute()
    replace_file(
        file, "".join(json.dumps(to_json(one), ensure_ascii=False) + "\n" for one in records)
    )
    return file
