"""One evaluation as every surface shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.types import (
    PROTOCOL_VERSION,
    CaseResult,
    Purpose,
    Samples,
    SignalKind,
    Stage,
    Status,
    from_json,
)
from harness.types import Evaluation as Domain
from kevolve_mcp.search import interval


@dataclass(frozen=True)
class Signal:
    """One finding about a candidate, or about its measurement."""

    name: str
    """A name of the vocabulary of signals."""
    message: str = ""
    """One sentence with the numbers."""
    kind: SignalKind = "finding"
    """What it means for a reader: a finding is about the candidate, a review needs a person, an
    integrity signal makes all figures unreliable, environment is about the machine."""
    evidence: dict[str, float] = field(default_factory=dict)
    """The numbers by name; only in records."""


@dataclass(frozen=True)
class Evaluation:
    """All results of one candidate in one measurement."""

    id: str = ""
    """Its name in the session that asks, e.g. "e12"; prefixed with another session's name where
    that one measured it; "x12" outside of sessions; "" where it is not stored."""
    candidate: str = ""
    """SHA-256 of the candidate's text and language."""
    status: Status = "correct"
    """How it ended."""
    message: str = ""
    """One sentence to act on."""
    purpose: Purpose = "search"
    """The purpose of the measurement."""
    through: Stage = "diagnose"
    """The last requested stage."""
    fitness: float | None = None
    """F: the weighted geometric mean of the speed-ups; 0 for anything not proved correct, null
    where nothing was timed."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of F."""
    eligible: bool = False
    """Whether it may win: false when a protected case got slower or a case is wrong."""
    signals: tuple[Signal, ...] = ()
    """Its signals, the most important first."""
    cases: tuple[CaseResult, ...] = ()
    """One object per case; held-out cases only at the end of a session."""
    input_families: tuple[str, ...] = ()
    """The families of inputs that its shown cases were checked with; empty where it was wrong."""
    stages: dict[str, str] = field(default_factory=dict)
    """By stage that ran: "ok", or what failed."""
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """By stage that ran, how long it took."""
    target: str = ""
    """Where it ran, e.g. "cpu"."""
    device: str = ""
    """The device, as part of the evaluation's key."""
    toolchain: str = ""
    """Versions of torch, compiler, Python and evaluator."""
    isolation: str = ""
    """The isolation level of the candidate's process."""
    seconds: float = 0.0
    """Wall clock of the whole evaluation."""
    processes: int = 0
    """The number of fresh processes behind its figures; 0 where it is not recorded."""
    device_seconds: float = 0.0
    """Seconds under the device lock."""
    language: str = ""
    """The candidate's language."""
    policy: str = ""
    """What the candidate was allowed to do."""
    protocol: int = PROTOCOL_VERSION
    """The version of the measurement protocol; figures of two versions are not comparable."""
    logs: dict[str, str] = field(default_factory=dict)
    """By stage, the end of the output of compiler and candidate (untrusted text); only in
    records."""
    facts: dict[str, str] = field(default_factory=dict)
    """Facts of the machine by name, such as cores and governor; only in records."""


SAMPLES = "samples"  # of the stage "time": Samples from the judge, their artifact in the store


def processes(evaluation: Domain) -> int:
    """Return the number of fresh processes behind an evaluation, 0 where its rounds are not
    known."""
    kept = (stage.data[SAMPLES] for stage in evaluation.stages if SAMPLES in stage.data)
    return max(map(_processes, kept), default=0)


def _processes(kept: dict[str, Any]) -> int:
    """The number in a stored evaluation, whose rounds are an artifact."""
    known = kept.get("processes")
    return int(known) if known is not None else from_json(Samples, kept).processes


def evaluation(
    domain: Domain, identifier: str = "", *, held_out: bool = True, record: bool = False
) -> Evaluation:
    """Show an evaluation.

    Args:
        domain: The domain's value.
        identifier: Its name in the store.
        held_out: Whether held-out cases are shown, as at the end of a session.
        record: Whether to include logs, facts of the machine and evidence of signals, which
            answers to agents omit.
    """
    environment = domain.environment
    return Evaluation(
        id=identifier,
        candidate=domain.candidate,
        status=domain.status,
        message=domain.message,
        purpose=domain.purpose,
        through=domain.through,
        fitness=domain.fitness,
        interval=interval(domain.cases) if domain.fitness else None,
        eligible=domain.eligible,
        signals=tuple(
            Signal(s.name, s.message, s.kind, dict(s.evidence) if record else {})
            for s in domain.signals
        ),
        cases=tuple(c for c in domain.cases if held_out or not c.held_out),
        input_families=_input_families(domain, held_out=held_out),
        stages={s.stage: "ok" if s.ok else s.message or "failed" for s in domain.stages},
        stage_seconds={s.stage: round(s.seconds, 2) for s in domain.stages},
        target=domain.target,
        device=environment.device,
        toolchain=environment.toolchain,
        isolation=environment.isolation,
        seconds=domain.seconds,
        processes=processes(domain),
        device_seconds=domain.device_seconds,
        language=domain.language,
        policy=domain.policy,
        protocol=domain.protocol,
        logs={s.stage: s.log for s in domain.stages if s.log} if record else {},
        facts=dict(environment.facts) if record else {},
    )


def _input_families(domain: Domain, *, held_out: bool) -> tuple[str, ...]:
    names = [c.name for c in domain.cases if held_out or not c.held_out]
    by_case: dict[str, list[str]] = next(
        (s.data.get("families", {}) for s in domain.stages if s.stage == "verify"), {}
    )
    return tuple(dict.fromkeys(family for name in names for family in by_case.get(name, ())))


# of a stage's data: name -> text from the judge, name -> {"artifact", "characters"} in the store
LISTINGS = "listings"
KERNELS = 12  # in an answer; the section "profile" has all
LOG = 1500  # characters of the end of a log
_BRIEF = (
    "kernel",
    "configuration",
    "cases",
    "launches",
    "registers",
    "spills",
    "stack_bytes",
    "shared_bytes",
    "matrix_instructions",
)


def facts(evaluation: Domain) -> dict[str, Any]:
    """Show the facts of build and profile, by stage, and the end of the failed stage's log."""
    by_stage: dict[str, Any] = {
        s.stage: _brief(s.data)
        for s in evaluation.stages
        if s.data and s.stage in ("build", "profile")
    }
    if evaluation.status != "correct" and (
        log := next((s.log for s in evaluation.stages if not s.ok and s.log), "")
    ):
        by_stage["log"] = {"end": log[-LOG:]}
    return by_stage


def _brief(data: dict[str, Any]) -> dict[str, Any]:
    """A stage's data, shortened: the names of listings and a summary of the first kernels."""
    short = {
        name: value for name, value in data.items() if name not in (LISTINGS, "kernels", "loops")
    }
    if LISTINGS in data:
        short[LISTINGS] = list(data[LISTINGS])[: 4 * KERNELS]
    if "loops" in data:
        short["loops"] = data["loops"][:KERNELS]
        short["loops_not_shown"] = max(0, len(data["loops"]) - KERNELS)
    if "kernels" in data:
        rows = sorted(data["kernels"], key=lambda k: bool(k.get("autotuned_alternative")))
        short["kernels"] = [_row(row) for row in rows[:KERNELS]]
        short["kernels_not_shown"] = max(0, len(rows) - KERNELS)
    return short


def _row(kernel: dict[str, Any]) -> dict[str, Any]:
    row = {name: kernel[name] for name in _BRIEF if name in kernel}
    occupancy = kernel.get("occupancy", {})
    row["occupancy"] = {
        name: occupancy[name] for name in ("fraction", "limiter") if name in occupancy
    }
    if kernel.get("refused"):
        row["refused"] = kernel["refused"]
    if kernel.get("autotuned_alternative"):
        row["autotuned_alternative"] = True
    return row
