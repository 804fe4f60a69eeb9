"""The content of an ask as data: the same facts as its text, for authors that compute instead of
reading."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any

from harness.types import (
    Candidate,
    Case,
    Params,
    Status,
    Task,
    TensorSpec,
    Tunables,
    from_json,
    to_json,
)
from kevolve_mcp.search.node import Role
from kevolve_mcp.search.tree import MemoryOperator


@dataclass(frozen=True)
class CaseFacts:
    """Inputs and outputs of one visible case as "float32[32, 4096]"."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskFacts:
    """The part of a Task that an author may see: no held-out cases, no paths of the server's
    machine."""

    name: str
    source: str
    operators: dict[str, int] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    cases: tuple[CaseFacts, ...] = ()

    @classmethod
    def of(cls, task: Task) -> TaskFacts:
        cases = tuple(
            CaseFacts(c.name, tuple(map(str, c.inputs)), tuple(map(str, c.outputs)))
            for c in task.visible_cases
        )
        return cls(task.name, task.source, dict(task.operators), task.parameters, cases)

    def as_task(self) -> Task:
        """Return a Task sufficient for matching skills: shapes, dtypes, operators, parameters;
        strides and sizes are not known (0)."""
        cases = tuple(
            Case(c.name, inputs=tuple(map(_spec, c.inputs)), outputs=tuple(map(_spec, c.outputs)))
            for c in self.cases
        )
        return Task(
            self.name,
            "",
            self.source,
            cases=cases,
            operators=dict(self.operators),
            parameters=self.parameters,
        )


@dataclass(frozen=True)
class ParentView:
    """One parent: its text, its literals and its results. `structure` as in search.Node."""

    id: str
    source: str
    status: Status
    fitness: float | None = None
    signals: tuple[str, ...] = ()
    params: Params = field(default_factory=dict)
    tunables: Tunables = field(default_factory=dict)
    structure: str = ""
    origin: str | None = None


@dataclass(frozen=True)
class HistoryRow:
    """One finished attempt. structure, candidate: digests, whole or `short`, to avoid
    repetition."""

    node: str
    status: Status
    fitness: float | None = None
    params: Params = field(default_factory=dict)
    structure: str = ""
    hypothesis: str = ""
    candidate: str = ""


@dataclass(frozen=True)
class StartView:
    """The kernel to submit unchanged for an ask of role "start". origin: "user file", "skill:
    NAME", "task: NAME"."""

    source: str
    origin: str
    note: str = ""


@dataclass(frozen=True)
class AskAllowance:
    """What the answer to an ask may still cost; None for no limit. seconds: wall clock until the
    session's time is up."""

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


UNLIMITED = AskAllowance()


@dataclass(frozen=True)
class AskContext:
    """Everything an author needs, in order of use. JSON: `as_json`, `parse`.

    id: "a12". seed: differs per ask and is the same when the ask is read again; it is the authors'
    only source of randomness. history: the attempts an author must not repeat. start: only for role
    "start". best: the best node's text, for authors that can only vary what exists. text: for
    readers (empty in the JSON form, where the text is sent beside it). allowance: filled in by the
    driver for authors that cost something; the server does not send it.
    """

    session: str
    id: str
    role: Role
    memory: MemoryOperator
    target: str
    language: str
    task: TaskFacts
    seed: int = 0
    parents: tuple[ParentView, ...] = ()
    history: tuple[HistoryRow, ...] = ()
    start: StartView | None = None
    best: ParentView | None = None
    goal: str = "best"
    text: str = ""
    allowance: AskAllowance = UNLIMITED

    @classmethod
    def parse(cls, data: Mapping[str, Any], text: str = "") -> AskContext:
        """Read what `as_json` returned. Raises harness.types.CodecError naming the field that does
        not fit."""
        return replace(from_json(cls, dict(data)), text=text)

    def as_json(self) -> dict[str, Any]:
        """Return a compact form without fields at their default, which `parse` restores. Digests
        are short where `context` made them."""
        data: dict[str, Any] = _compact(replace(self, text=""))
        return data


def structure_digest(candidate: Candidate) -> str:
    """Return the digest of the source with PARAMS blanked: equal for candidates that differ only in
    parameters.

    Raises CandidateError when the text is not valid Python or its literals cannot be read."""
    return candidate.with_params({}).digest if candidate.params() else candidate.digest


def short(digest: str) -> str:
    """Return the part of a digest that asks contain: 16 hex digits tell the attempts of one session
    apart."""
    return digest[:16]


def _compact(value: Any) -> Any:
    """`to_json` without the fields that hold their default."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: getattr(value, f.name) for f in fields(value)}
        plain = {
            f.name: f.default_factory() if f.default_factory is not MISSING else f.default
            for f in fields(value)
        }
        return {name: _compact(v) for name, v in kept.items() if v != plain[name]}
    return [_compact(v) for v in value] if isinstance(value, (list, tuple)) else to_json(value)


def structural_names(source: str) -> tuple[str, ...]:
    """Return the literal `STRUCTURE = ["ONE_PASS"]`, the tunables that change the algorithm; ()
    without a readable one."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ()
    for statement in statements:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "STRUCTURE" for t in statement.targets
        ):
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                return ()
            return (
                tuple(v for v in value if isinstance(v, str))
                if isinstance(value, (list, tuple))
                else ()
            )
    return ()


def _spec(text: str) -> TensorSpec:
    """ "float32[32, 4096]" -> TensorSpec with contiguous strides; nbytes 0: not known from the
    text."""
    dtype, _, shape = text.rstrip("]").partition("[")
    sizes = tuple(int(s) for s in shape.split(",") if s.strip())
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return TensorSpec(sizes, dtype, tuple(reversed(strides)), 0)
