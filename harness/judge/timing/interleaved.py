"""One block with several candidates, each in its own confined process, timed burst by burst in
random order against one baseline.

A candidate runs only in its own turns; everything that it started is stopped while another one
runs, also while that one is loaded, prepared or given other parameters. Otherwise they could pass
each other data: a futex in a file that all map, for example, tells how many threads wait there, but
a stopped thread does not wait. All candidates get inputs that they have not seen, and every timed
output of each is verified.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from functools import partial

from ...types import Case
from ..candidate_workers import prepare
from ..failures import Failure, explain
from ..figures.block import Block
from ..processes.freezing import HeldProcesses, is_gone
from ..processes.worker import Worker
from ..stage_context import StageContext
from . import blocks, paired, timed_outputs
from .rounds import TimedCandidate


class Lost(Exception):
    """The candidate at this place failed while it was timed. The block gives no result for the
    others."""

    def __init__(self, place: int, failure: Failure) -> None:
        super().__init__(failure.message)
        self.place, self.failure = place, failure


def time_case(
    case: Case,
    contexts: Sequence[StageContext],
    workers: Sequence[Worker],
    held: HeldProcesses,
    baseline: str,
    rng: random.Random,
) -> list[Block]:
    """Time one block for each candidate, with equally many interleaved rounds. case: with its
    screening. held: has stopped all workers, which stand still afterwards. Raises Lost."""
    first = contexts[0]
    pool = first.task.pools[case.name]
    blocks.draw(first, case, len(contexts))
    with blocks.ready_baselines(first, case.name, [baseline]):
        candidates = []
        for place, (context, worker) in enumerate(zip(contexts, workers, strict=True)):
            attribute = partial(_attribute_failures, case, place, context, worker)
            with attribute(), held.turn(worker.root):
                slots = prepare(context, worker, pool, 1 if pool.one_by_one else pool.calls)
            candidates.append(TimedCandidate(place, worker, slots, attribute))
        try:
            return paired.time_block(
                first.task,
                case,
                candidates,
                [baseline],
                first.lock,
                first.cancel,
                rng,
                held=held,
            )
        except paired.WORKER_ERRORS as error:  # a worker ended between turns
            lost = next((each for each in candidates if _is_gone(each.worker)), None)
            if lost is None:
                raise
            with lost.attribute():
                raise error


def _is_gone(worker: Worker) -> bool:
    """Return whether a worker has ended or is ending: a kill takes some time."""
    return is_gone(worker.root) or worker.has_ended


@contextlib.contextmanager
def losing(place: int) -> Iterator[None]:
    """Attribute a failure inside the block to the candidate at this place."""
    try:
        yield
    except Failure as failure:
        raise Lost(place, failure) from failure


@contextlib.contextmanager
def _attribute_failures(
    case: Case, place: int, context: StageContext, worker: Worker
) -> Iterator[None]:
    """Turn any error of the worker inside the block into this candidate's failure."""
    try:
        with losing(place):
            yield
    except timed_outputs.WrongWhenTimed as wrong:
        raise Lost(place, blocks.timed_failure(wrong, "wrong while it was timed")) from wrong
    except paired.WORKER_ERRORS as error:
        where = f"case {case.name}, timed"
        raise Lost(
            place,
            explain(
                error,
                where,
                worker.log(),
                worker.log_overflowed,
                context.builds.records,
                context.language,
            ),
        ) from error
