"""One evaluation: everything that was measured about a candidate under one key."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .candidate import Candidate
from .environment import Environment
from .policy import Policy
from .signal import Signal

PROTOCOL_VERSION = 34  # raise it whenever a figure measured before could differ now

Status = Literal[
    "invalid",
    "build_failed",
    "crashed",
    "timed_out",
    "incorrect",
    "reward_hack",
    "needs_review",
    "correct",
]
Stage = Literal["build", "verify", "time", "profile", "diagnose"]
Purpose = Literal["search", "check", "confirm", "export", "compare", "ablation"]
Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]
STAGES: tuple[Stage, ...] = ("build", "verify", "time", "profile", "diagnose")


MOST_EFFORT = 8.0
# accepted in earlier samples: no real call lies outside, and logarithms of ratios stay small
LEAST_US, MOST_US = 0.01, 1e12
MOST_BASELINES = 1_000_000
# the rounds of one fresh candidate process: (baseline, candidate), in microseconds per call
Rounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Samples:
    """Earlier samples under the same key, to be joined with those measured now.

    rounds: by case and baseline, one entry per fresh process. baselines: the number of baseline
    processes that they were timed against. open_us: by case and baseline, the largest uncertainty
    of the judge's clock in any of these measurements. contended: the cases that were timed while
    another program used the device.
    """

    rounds: dict[str, dict[str, tuple[Rounds, ...]]] = field(default_factory=dict)
    baselines: int = 1
    open_us: dict[str, dict[str, float]] = field(default_factory=dict)
    contended: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """The number of candidate processes in the case that has the fewest."""
        counts = [
            max(map(len, by_baseline.values()), default=0) for by_baseline in self.rounds.values()
        ]
        return min(counts, default=0)

    @property
    def problem(self) -> str:
        """Why these samples cannot be joined with new ones, "" if they can."""
        processes = [
            process
            for by_baseline in self.rounds.values()
            for rounds in by_baseline.values()
            for process in rounds
        ]
        if not all(processes):
            return "a process has no rounds; at least one is accepted"
        if not all(LEAST_US <= us <= MOST_US for p in processes for pair in p for us in pair):
            return f"a round lies outside {LEAST_US:g} to {MOST_US:g} us, the accepted range"
        if not 0 <= self.baselines <= MOST_BASELINES:
            return f"{self.baselines} baselines; 0 to {MOST_BASELINES} are accepted"
        if not all(
            0 <= us < math.inf for rounds in self.open_us.values() for us in rounds.values()
        ):
            return "open_us holds a negative or non-finite value; 0 and more are accepted"
        return ""


@dataclass(frozen=True)
class EvaluationRequest:
    """A request to evaluate one candidate.

    through: the last stage to run.
    purpose: "confirm" and "export" use fresh process pairs, fresh seeds and held-out cases, and
    time every baseline; "confirm" also measures the extra figures shown beside a verdict. "search"
    times the strongest baseline. "compare" is one of several candidates timed in the same rounds.
    "ablation" also times an incorrect candidate, without fitness or verdict.
    cases: the names to restrict to, empty for all. effort: in a search, a factor on the usual
    number of fresh processes, 1 to MOST_EFFORT. earlier: samples of the same key. best: F of the
    best candidate so far, 0 for none; a search stops timing a candidate that is behind it.
    """

    candidate: Candidate
    purpose: Purpose = "search"
    through: Stage = "diagnose"
    policy: Policy = field(default_factory=Policy)
    cases: tuple[str, ...] = ()
    best: float = 0.0
    effort: float = 1.0
    earlier: Samples = field(default_factory=Samples)

    def __post_init__(self) -> None:
        if not 1 <= self.effort <= MOST_EFFORT:
            raise ValueError(f"effort {self.effort}; 1 to {MOST_EFFORT:g} are accepted")
        if not 0 <= self.best < math.inf:
            raise ValueError(f"best {self.best}; 0 or a finite F above it is accepted")
        if problem := self.earlier.problem:
            raise ValueError(f"earlier: {problem}")

    @property
    def renews(self) -> bool:
        """Whether each candidate process is paired with a baseline process of its own. A single
        baseline process would limit how narrow the interval can become."""
        return self.purpose in ("confirm", "export") or self.effort > 1 or bool(self.earlier.rounds)


@dataclass(frozen=True)
class StageReport:
    """The result of one stage. log: the end of what the compiler or the candidate printed
    (untrusted text). data: figures of the stage by name."""

    stage: Stage
    ok: bool
    seconds: float = 0.0
    message: str = ""
    log: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AllCores:
    """The same comparison with a thread on every core, in median microseconds. interval, verdict:
    only where there are enough cores to judge; neither counts for fitness."""

    threads: int
    latency_us: float
    baseline_us: float
    speedup: float
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class CaseResult:
    """One case of one evaluation.

    error, framework_error: norm-wise error against the high-precision reference, of the candidate
    and of the framework.
    speedup: baseline time / candidate time (median of paired ratios) against `baseline`, the
    strongest. interval: its 95 % interval. baselines: median microseconds of the baselines timed
    beside it, by name. latency_us: the candidate's median (device time on a GPU).
    clock: the source of the figure: "judge", or "candidate" (events in its process, on a GPU).
    open_us: how much longer a call may be without the judge's clock showing it; an advantage within
    it is not called faster. launch_us: the host's time to issue one call; on a CPU the latency.
    warm_us, baseline_warm_us: one call with warm caches, on the same input again and again, by the
    clock of its own process. end_to_end_us, baseline_end_to_end_us: on a GPU, one warm call from
    launch until the caller has waited for its end. dispatch_us: in an exported package, the time to
    choose the implementation of a call, warm. These five are shown, never judged.
    all_cores: with all threads of a CPU; only in confirmations.
    roofline_fraction: roofline time / latency, the achieved share of the measured ceiling.
    ceiling: what that ceiling is, such as "memory: inputs in L3, outputs in memory"; the baseline's
    own time if that is shorter than the measured rates allow.
    naive_speedup: the speed-up without equal allocation behaviour, where it was measured.
    own_kernel_fraction: the share of a call, without the framework's part, that the candidate's own
    kernels take, in the longest case.
    """

    name: str
    weight: float = 1.0
    protected: bool = False
    held_out: bool = False
    correct: bool = False
    error: float | None = None
    framework_error: float | None = None
    tolerance: float | None = None
    detail: str = ""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    baseline: str | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    latency_us: float | None = None
    clock: str = ""
    open_us: float | None = None
    launch_us: float | None = None
    warm_us: float | None = None
    baseline_warm_us: float | None = None
    end_to_end_us: float | None = None
    baseline_end_to_end_us: float | None = None
    dispatch_us: float | None = None
    all_cores: AllCores | None = None
    roofline_fraction: float | None = None
    ceiling: str = ""
    pairs: int = 0
    page_faults: float | None = None
    baseline_page_faults: float | None = None
    host_peak_bytes: int | None = None
    """The peak host memory of the candidate's process while it was timed, beyond what it began
    with, as the kernel counts it."""
    baseline_host_peak_bytes: int | None = None
    """The same of `baseline`."""
    device_peak_bytes: int | None = None
    """The device memory that its process held after its timed calls; None on a CPU and where the
    driver does not report it."""
    baseline_device_peak_bytes: int | None = None
    """The same of `baseline`."""
    threads: int = 1
    allocation: str = ""
    naive_speedup: float | None = None
    own_kernel_fraction: float | None = None
    bitwise_equal_to_eager: bool | None = None
    bitwise_reproducible: bool | None = None
    nothing_us: float | None = None
    """The time of an empty call on a CPU, which the figures of both sides include."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments that the inputs of a held-out case were drawn with: shapes given as ranges
    differ in each evaluation."""


@dataclass(frozen=True)
class Evaluation:
    """The result for one candidate. fitness: None when nothing was timed, 0 for anything not proved
    correct. device_seconds: seconds under the device lock."""

    candidate: str
    language: str
    task: str
    target: str
    purpose: Purpose
    status: Status
    message: str
    policy: str
    environment: Environment
    signals: tuple[Signal, ...] = ()
    fitness: float | None = None
    eligible: bool = False
    cases: tuple[CaseResult, ...] = ()
    stages: tuple[StageReport, ...] = ()
    through: Stage = "diagnose"
    seconds: float = 0.0
    device_seconds: float = 0.0
    protocol: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        if not self.signals and self.status != "correct":
            raise ValueError(
                f"an evaluation with status {self.status!r} must carry at least one signal"
            )

    @property
    def key(self) -> str:
        """The digest under which the store may answer with this evaluation."""
        return evaluation_key(
            self.candidate, self.task, self.policy, self.environment, self.purpose, self.through
        )


def evaluation_key(
    candidate: str,
    task: str,
    policy: str,
    environment: Environment,
    purpose: str,
    through: str,
    protocol: int = PROTOCOL_VERSION,
) -> str:
    """Return the SHA-256 over candidate and task digests, policy, device, toolchain (with the
    evaluator's own digest), protocol version, purpose and last requested stage.

    Purpose and stage are included because a check without timing, or a search's shorter timing,
    must not answer a confirmation.
    """
    parts = (
        candidate,
        task,
        policy,
        environment.device,
        environment.toolchain,
        str(protocol),
        purpose,
        through,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def fitness(cases: Sequence[CaseResult]) -> float | None:
    """Return F = exp(sum of w_c * ln(speedup_c)), with weights normalised over the timed cases that
    are not held out.

    None when no case was timed; 0.0 when any case is incorrect.
    """
    if any(not c.correct for c in cases):
        return 0.0
    timed = [c for c in cases if c.speedup is not None and not c.held_out and c.weight > 0]
    total = sum(c.weight for c in timed)
    if not timed or total <= 0:
        return None
    return math.exp(sum(c.weight / total * math.log(c.speedup) for c in timed if c.speedup))


def eligible(cases: Sequence[CaseResult]) -> bool:
    """Return False when a protected case's interval lies below 1, or any case is incorrect."""
    return all(
        c.correct and not (c.protected and c.interval is not None and c.interval[1] < 1.0)
        for c in cases
    )
