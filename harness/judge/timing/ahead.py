"""Processor time that a candidate takes before the measured rounds of a half.

Where calls update something, who knows what it was can compute what later calls will leave, in
calls that nobody measures or while its parameters are set. Other values are written before the
rounds (see timed_state), but not of counters and masks, and some updates forget where they began.
The
operating system counts that time. What the
process takes beyond its calls, and beyond the same of the baseline's process, is spread over the
half's calls and left open. The last half counts, since the parameters of the first are known from
the process's beginning; and by how much calls of one half are shorter than those of the other,
relative to the baseline's, is left open as well.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence

from ..exchange.process_bill import ProcessBill
from ..processes.worker import Worker

NOISE_NS = 1_000_000  # by which equal processes differ before their rounds
UNLIKE = 0.15  # by which calls of two halves differ on a noisy machine


class Ahead:
    """The time of one candidate in one block, on a CPU."""

    def __init__(self, worker: Worker, baseline_worker: Worker) -> None:
        self._bill, self._baseline = ProcessBill(worker), ProcessBill(baseline_worker)
        self._began_ns = self._used_ns = self._baseline_ns = 0
        self._calls = self._baseline_calls = 0
        self._excess_us = self._baseline_us = 0.0  # per call of the last half
        # by half: the time of a call, as a share of the baseline's
        self._shares: list[float] = []

    def begin(self) -> None:
        """Begin to count, before the parameters of a half are set."""
        self._began_ns, self._baseline_ns = self._bill.used_ns(), 0

    @contextlib.contextmanager
    def of_baseline(self) -> Iterator[None]:
        """Count the baseline's time too: while its parameters are set, and while it makes the same
        calls as a candidate."""
        before = self._baseline.used_ns()
        yield
        self._baseline_ns += self._baseline.used_ns() - before

    def settled(self, calls: int, baseline_calls: int) -> None:
        """Stop counting, before the first round. calls: of both sides since the beginning."""
        self._used_ns = self._bill.used_ns() - self._began_ns
        self._calls, self._baseline_calls = calls, baseline_calls

    def spread(self, us: Sequence[float], baseline_us: Sequence[float], calls: int) -> None:
        """Note the excess of a half. us: the time of a call in each of its rounds. calls: made in a
        round."""
        call_us, baseline_call_us = statistics.median(us), statistics.median(baseline_us)
        # unmeasured calls have warm caches: less than nothing is left of faster sides as of others
        own_ns = max(0.0, self._used_ns - 1e3 * self._calls * call_us)
        other_ns = max(0.0, self._baseline_ns - 1e3 * self._baseline_calls * baseline_call_us)
        excess_ns = max(0.0, own_ns - other_ns - NOISE_NS)
        self._excess_us = excess_ns / 1e3 / (calls * len(us))
        self._baseline_us = baseline_call_us
        self._shares.append(call_us / baseline_call_us)

    @property
    def us(self) -> float:
        """What is left open, in microseconds per call."""
        unlike = max(self._shares) - (1 + UNLIKE) * min(self._shares)
        return self._excess_us + max(0.0, unlike) * self._baseline_us
