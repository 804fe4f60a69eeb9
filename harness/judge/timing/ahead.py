"""Processor time that a candidate takes before the measured rounds of a half.

Where calls update something, who knows what it was can compute what later calls will leave, in
calls that nobody measures or while its parameters are set. The kernel counts that time. What the
process takes beyond its calls, and beyond the same of the baseline's process, is spread over the
half's calls and left open: of both halves the smaller, since the first calls of a process take
longer, but also by how much the calls of one half are shorter than those of the other.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence

from ..exchange.process_bill import ProcessBill
from ..processes.worker import Worker
from .timed_state import BEGIN_CALLS

# What commands of the judge take that only a candidate gets.
COMMANDS_NS = 1_000_000
UNLIKE = 0.15  # by which calls of two halves differ on a noisy machine


class Ahead:
    """The time of one candidate in one block, on a CPU."""

    def __init__(self, worker: Worker, baseline_worker: Worker) -> None:
        self._bill, self._baseline = ProcessBill(worker), ProcessBill(baseline_worker)
        self._began_ns = self._used_ns = self._baseline_ns = 0
        self._calls = 0
        self._excess_us: list[float] = []  # by half, per call
        self._call_us: list[float] = []

    def begin(self) -> None:
        """Begin to count, before the parameters of a half are set."""
        self._began_ns, self._baseline_ns = self._bill.used_ns(), 0

    @contextlib.contextmanager
    def of_baseline(self) -> Iterator[None]:
        """Count the baseline's time too: while its parameters are set, and while it settles, in as
        many calls but those that only a candidate makes."""
        before = self._baseline.used_ns()
        yield
        self._baseline_ns += self._baseline.used_ns() - before

    def settled(self, calls: int) -> None:
        """Stop counting, before the first round. calls: those made since the beginning."""
        self._used_ns = self._bill.used_ns() - self._began_ns
        self._calls = calls

    def spread(self, us: Sequence[float], baseline_us: Sequence[float], calls: int) -> None:
        """Add the excess of a half. us: the time of a call in each of its rounds. calls: made in a
        round."""
        own_ns = self._used_ns - 1e3 * self._calls * statistics.median(us)
        other_ns = self._baseline_ns - 1e3 * (self._calls - BEGIN_CALLS) * statistics.median(
            baseline_us
        )
        excess_ns = own_ns - other_ns - COMMANDS_NS
        self._excess_us.append(max(0.0, excess_ns) / 1e3 / (calls * len(us)))
        self._call_us.append(statistics.median(us))

    @property
    def us(self) -> float:
        """What is left open, in microseconds per call."""
        shorter_us, longer_us = min(self._call_us), max(self._call_us)
        return min(self._excess_us) + max(0.0, longer_us - (1 + UNLIKE) * shorter_us)


def counted(ahead: Ahead | None, is_baseline: bool) -> contextlib.AbstractContextManager[None]:
    """Return a context that counts the time of a baseline; of a candidate, all time counts."""
    return ahead.of_baseline() if ahead is not None and is_baseline else contextlib.nullcontext()
