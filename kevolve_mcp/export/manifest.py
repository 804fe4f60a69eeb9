"""What a package says about itself: frozen values, written as manifest.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.types import Candidate
from kevolve_mcp import api

FORMAT = 2  # raise it when a package of today could no longer be read


@dataclass(frozen=True)
class LineageStep:
    """One node on the way to the winner, in order. origin: where a borrowed start came from, None
    for a step of the search."""

    node: str
    origin: str | None = None
    hypothesis: str = ""
    fitness: float | None = None
    status: str = "correct"


@dataclass(frozen=True)
class Edit:
    """One place where kernel.py differs from the evaluated text: `new`, at character `start` of
    kernel.py, stands for `old`."""

    start: int
    new: str
    old: str


@dataclass(frozen=True)
class Manifest:
    """Everything that identifies a package.

    task, candidate: digests. key: the evaluation's key that justified the export. operator: its
    name in torch.ops. approved_by, approved_at: who let it pass and when (ISO 8601, UTC), "" where
    nobody was asked. form: "module" or "function", how the task defines its reference. case_inputs:
    what the table shows per case. kernel_cases / reference_cases: the dispatch decisions by name.
    goal: of the session, as Goal.parse takes it. files: SHA-256 by file name, the manifest itself
    excepted.
    """

    name: str
    operator: str
    task: str
    candidate: str
    key: str
    language: str
    target: str
    device: str
    form: str
    gradients: bool
    session: str
    approved_by: str
    kernel_cases: tuple[str, ...]
    reference_cases: tuple[str, ...]
    case_inputs: dict[str, str]
    lineage: tuple[LineageStep, ...]
    edits: tuple[Edit, ...]
    versions: dict[str, str]
    files: dict[str, str]
    format: int = FORMAT
    goal: str = "best"
    approved_at: str = ""


@dataclass(frozen=True)
class ExportResult:
    """path: the package's folder. files: names inside it."""

    path: Path
    files: tuple[str, ...]
    manifest: Manifest


@dataclass(frozen=True)
class Package:
    """A package that was read and found whole.

    task_source / task_path: the reference, usable as a task. candidate: the text that was
    evaluated, its digest proved. evaluation: of the candidate, before the export. as_called: of the
    package as a user calls it, None before that was recorded.
    """

    path: Path
    manifest: Manifest
    task_source: str
    task_path: Path
    candidate: Candidate
    evaluation: api.Evaluation
    as_called: api.Evaluation | None
    texts: dict[str, str]
