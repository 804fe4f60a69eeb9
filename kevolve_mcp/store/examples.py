"""Small values of every kind, for tests of the store and of the floors above."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from harness.types import (
    Candidate,
    Case,
    CaseResult,
    Environment,
    Evaluation,
    Policy,
    Signal,
    StageReport,
    Task,
    TensorSpec,
)
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.search.tree import ROOT, Expansion

from .records import NewNode, NewSession, SessionRecord
from .store import Store

ENVIRONMENT = Environment(
    "cpu:test:avx2", "torch 2.13.0, g++ 12", "namespaces", "malloc", 1, {"kernel": "6.1"}
)
EXPAND = Expansion((ROOT,), "none", "draft", {"island": 1})


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sample_task(name: str = "rmsnorm", operators: dict[str, int] | None = None) -> Task:
    """Return a task with one visible and one held-out case."""
    source = f"# {name}\nclass Model: ...\n"
    tensor = TensorSpec((4, 8), "float32", (8, 1), 128)
    cases = (
        Case(
            "small",
            1.0,
            True,
            False,
            {"n": 4},
            (tensor,),
            (tensor,),
            384,
            256,
            128,
            64.0,
            {"eager": 10.5},
            2.5,
            ("normal",),
            {"zero": "NaN"},
        ),
        Case("hidden", 0.0, held_out=True),
    )
    digest = hashlib.sha256(source.encode()).hexdigest()
    shown = {"aten.mul": 2, "aten.rsqrt": 1} if operators is None else operators
    return Task(
        name,
        digest,
        source,
        "/tasks/x.py",
        cases,
        "default",
        False,
        ("eager", "compile"),
        shown,
        ("weight",),
        ("a note",),
    )


def sample_candidate(text: str = "x", language: str = "cpp") -> Candidate:
    """Return a candidate that differs by `text`."""
    return Candidate(f"# {text}\nPARAMS = {{'A': 1}}\n", language)


def sample_evaluation(
    candidate: Candidate, task: Task, fitness: float | None = 1.5, **changes: Any
) -> Evaluation:
    """Return a correct evaluation with every field set."""
    case = CaseResult(
        name="small",
        protected=True,
        correct=True,
        error=1e-7,
        framework_error=2e-7,
        tolerance=1e-5,
        detail="fine",
        speedup=fitness,
        interval=(0.8 * fitness, 1.2 * fitness) if fitness else (1.2, 1.8),
        verdict="faster",
        baseline="compile",
        baselines={"eager": 10.5},
        latency_us=7.0,
        roofline_fraction=0.5,
        pairs=3,
        naive_speedup=2.0,
        bitwise_equal_to_eager=False,
        bitwise_reproducible=True,
    )
    values: dict[str, Any] = {
        "candidate": candidate.digest,
        "language": candidate.language,
        "task": task.digest,
        "target": "cpu",
        "purpose": "search",
        "status": "correct",
        "message": "1.5 times the baseline",
        "policy": str(Policy()),
        "environment": ENVIRONMENT,
        "signals": (
            Signal("memory_bound", "80 % of the bandwidth", {"share": 0.8}),
            Signal("narrow_vectors"),
        ),
        "fitness": fitness,
        "eligible": True,
        "cases": (case, CaseResult("hidden", held_out=True, correct=True)),
        "stages": (
            StageReport("build", True, 1.5, "built", "warning: x", {"size": 100}),
            StageReport("verify", True),
        ),
        "seconds": 4.0,
        "device_seconds": 0.25,
    }
    return Evaluation(**{**values, **changes})


def opened(store: Store, name: str = "rmsnorm", **changes: Any) -> SessionRecord:
    """Return a session on a sample task."""
    task = sample_task(name)
    store.tasks.put(task)
    return store.sessions.create(
        NewSession(**{"task": task.digest, "target": "cpu", "language": "cpp", **changes})
    )


def new_node(
    store: Store,
    text: str = "x",
    task: str = "rmsnorm",
    fitness: float | None = 1.5,
    **changes: Any,
) -> NewNode:
    """Return a node of a sample candidate, which is put into the store."""
    candidate = sample_candidate(text)
    store.candidates.put(candidate)
    values: dict[str, Any] = {
        "candidate": candidate.digest,
        "evaluation": sample_evaluation(candidate, sample_task(task), fitness),
    }
    return NewNode(**{**values, **changes})


def refused(kind: type[KEvolveError], call: Callable[[], object]) -> KEvolveError:
    """Return the error of that kind which `call` raises; it must say what to do next."""
    refusal: KEvolveError | None = None
    try:
        call()
    except kind as error:
        refusal = error
    assert refusal is not None, f"{kind.__name__} was expected"
    assert refusal.hint or refusal.actions, f"{refusal!r} does not say what to do"
    return refusal
