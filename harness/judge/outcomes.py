"""The outcomes of the stages of an evaluation. A stage is a function from its context and the
earlier outcomes to its own outcome, which includes the failure that ended the evaluation in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..types import CaseResult, Signal
from ..wire.launches import Captured
from .failures import Failure
from .figures.case_times import CaseTimes
from .processes.worker import Worker


@dataclass(frozen=True)
class Outcome:
    """The common part of all outcomes."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """The data of its report."""
    signals: Sequence[Signal] = ()
    """The signals that it found, besides those of its failure."""
    results: Mapping[str, CaseResult] = field(default_factory=dict)
    """The results after it, by case; empty for a stage that does not change them."""
    failure: Failure | None = None
    """The failure that ended the evaluation in it; the other fields are then what was found so
    far."""


@dataclass(frozen=True)
class Built(Outcome):
    """The outcome of reading the candidate's text and loading it in a worker."""

    worker: Worker | None = None
    """The worker for checking; None if there is none. The pipeline closes it."""


@dataclass(frozen=True)
class Verified(Outcome):
    """The outcome of comparing outputs, with counts of what computes them as the candidate's
    process reports them."""

    launches: int = 0
    """Launches of its own kernels."""
    called: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Calls of C++ functions, by build and name."""
    kernels: Sequence[Captured] = ()
    """The kernels of load_cuda that were launched."""


@dataclass(frozen=True)
class Timed(Outcome):
    """The outcome of timing fresh processes against the baselines."""

    times: Mapping[str, CaseTimes] = field(default_factory=dict)
    """By case, the measurements of each process."""


@dataclass(frozen=True)
class Profiled(Outcome):
    """The outcome of finding out what did the work, and of analysing compiled code."""

    static: Sequence[Signal] = ()
    """Signals from the binaries, reported where they explain the time."""
