"""What the stages of one evaluation leave. A stage is a function from its context and the outcomes
before it to its own; what ended the evaluation in it is a part of that."""

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
    """What any stage leaves."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """Of its report."""
    signals: Sequence[Signal] = ()
    """That it found, besides those of its failure."""
    results: Mapping[str, CaseResult] = field(default_factory=dict)
    """By case, as they stand after it; empty for a stage that has nothing to do with them."""
    failure: Failure | None = None
    """What ended the evaluation here; the rest is then what was found until then."""


@dataclass(frozen=True)
class Built(Outcome):
    """The candidate's text was read, and a worker has loaded it."""

    worker: Worker | None = None
    """The one that is checked; None where it did not come to that. The pipeline closes it."""


@dataclass(frozen=True)
class Verified(Outcome):
    """Outputs were compared, and what computes them was counted, in the candidate's own words."""

    launches: int = 0
    """Of its own kernels."""
    called: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Calls of C++ functions, by build and name."""
    kernels: Sequence[Captured] = ()
    """Of load_cuda, that were launched."""


@dataclass(frozen=True)
class Timed(Outcome):
    """Fresh processes stood beside the baselines."""

    times: Mapping[str, CaseTimes] = field(default_factory=dict)
    """By case: what was measured in each process."""


@dataclass(frozen=True)
class Profiled(Outcome):
    """It is known who did the work, and what a compiler made of it."""

    static: Sequence[Signal] = ()
    """What the binaries show: told where they explain the time."""
