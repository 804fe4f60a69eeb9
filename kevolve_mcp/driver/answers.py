"""What the server's answers mean to the driver: frozen records read from structured content.

Only the fields that the driver uses are read, and a field that is new to it is ignored: an older
driver works with a newer server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.types import Budget, CaseResult, CodecError, Spent, from_json
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import KEvolveError

T = TypeVar("T")
UNLIMITED = Budget()
NOTHING_SPENT = Spent()


class UnreadableAnswer(KEvolveError):
    """The server answered something this driver cannot read."""

    code = "unreadable_answer"


@dataclass(frozen=True)
class NodeFacts:
    """One node. interval: 95 % interval of the fitness; versus_parent: its fitness over the best
    parent's."""

    id: str
    status: str
    parents: tuple[str, ...] = ()
    fitness: float | None = None
    interval: tuple[float, float] | None = None
    role: str = "improve"
    origin: str | None = None
    hypothesis: str = ""
    predicted_speedup: float | None = None
    versus_parent: float | None = None
    signals: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseFacts:
    """One case of the task: screening medians of the baselines in microseconds."""

    name: str
    inputs: tuple[str, ...] = ()
    baselines_us: dict[str, float] = field(default_factory=dict)
    roofline_time_us: float = 0.0
    protected: bool = False


@dataclass(frozen=True)
class ExportedFacts:
    """What a session ended with: the node, and its package's F as a user calls it."""

    node: str
    fitness: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class SessionFacts:
    """state: "opening", "open", "finished" or "abandoned"."""

    id: str
    state: str
    task: str
    target: str
    language: str
    goal: str
    selection: str = ""
    budget: Budget = UNLIMITED
    spent: Spent = NOTHING_SPENT
    nodes: int = 0
    correct: int = 0
    open_asks: int = 0
    best: NodeFacts | None = None
    exported: ExportedFacts | None = None
    cases: tuple[CaseFacts, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class SignalFacts:
    name: str
    message: str = ""


@dataclass(frozen=True)
class EvaluationFacts:
    """cases as CaseResult; what the server does not say keeps its default."""

    id: str
    status: str
    message: str
    fitness: float | None = None
    interval: tuple[float, float] | None = None
    signals: tuple[SignalFacts, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    device: str = ""
    toolchain: str = ""
    isolation: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Told:
    """The answer to kernel_submit. best: the best node afterwards; new_best: this node became
    it."""

    evaluation: EvaluationFacts
    node: NodeFacts
    best: NodeFacts | None = None
    new_best: bool = False
    cached: bool = False
    observed: float | None = None
    spent: Spent = NOTHING_SPENT


@dataclass(frozen=True)
class SkillFacts:
    id: str
    title: str
    state: str
    effect: float = 0.0
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Ending:
    """The answer to session_finish. measured: the package timed as a user calls it, the figure to
    report; unmet_goals: where it falls short of the goal, or of the kernel alone, in sentences.
    contents: the
    package's files by name, where they were asked for."""

    session: SessionFacts
    state: str
    reason: str
    node: NodeFacts | None = None
    confirmed: EvaluationFacts | None = None
    measured: EvaluationFacts | None = None
    unmet_goals: tuple[str, ...] = ()
    package: str = ""
    contents: dict[str, str] = field(default_factory=dict)
    lineage: tuple[NodeFacts, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    skills: tuple[SkillFacts, ...] = ()


def read(cls: type[T], data: object, where: str = "") -> T:
    """`cls` from structured content, unknown fields dropped at every level. Raises UnreadableAnswer
    naming the field."""
    try:
        return from_json(cls, _known(cls, data))
    except CodecError as error:
        raise UnreadableAnswer(
            f"the server's answer{f' to {where}' if where else ''} cannot be read: {error}",
            "Driver and server are of different versions.",
            Action("describe_targets", "shows this one's"),
        ) from None


def _known(kind: Any, data: Any) -> Any:
    """`data` without the keys that the dataclass `kind` (or one inside it) does not have."""
    if dataclasses.is_dataclass(kind) and isinstance(data, Mapping):
        hints = _hints(kind)
        return {key: _known(hints[key], value) for key, value in data.items() if key in hints}
    for inner in getattr(kind, "__args__", ()):
        if isinstance(data, (list, tuple)) and dataclasses.is_dataclass(inner):
            return [_known(inner, item) for item in data]
        if isinstance(data, Mapping) and dataclasses.is_dataclass(inner):
            return _known(inner, data)
    return data


def _hints(cls: Any) -> dict[str, Any]:
    from typing import get_type_hints

    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}
