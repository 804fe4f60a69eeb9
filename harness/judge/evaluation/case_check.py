"""The check of one case of one candidate on all its checking sets: in bursts, after changes of the
parameters, and repeatedly."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from ...types import Case, CaseResult
from ...wire.nesting import tensors_of
from ..attribution import own_work
from ..candidate_workers import LOAD_SECONDS, call_seconds, set_state
from ..correctness import oracle, tolerance
from ..correctness.distance import same_bits
from ..errors import WorkerFailed
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..exchange.slots import BurstResult, Slots
from ..failures import Failure
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.drawer import Drawer
from . import batches, configurations
from .mismatches import Mismatches, describe_setting

T = TypeVar("T")
DIAGNOSIS_SECONDS = 5.0  # how long a wrong case is examined further
# limits on the set whose values are shown, and on a call of the reference: drawing it must cost
# little compared with the check
SHOWN_BYTES, SHOWN_SECONDS = 256 << 20, 1.0
# calls that repeat the same inputs, the most of them in one burst, and how long they may take; in a
# search, whose winner is checked again anyway
REPEATED_CALLS, REPEATED_AT_ONCE = 36, 12
REPEATING_SECONDS, SEARCH_REPEATING_SECONDS = 0.5, 0.15


@dataclass
class CaseCheck:
    """The check of one case of one candidate, with its findings so far."""

    context: StageContext
    case: Case
    pool: CasePool
    worker: Worker
    slots: Slots
    reproducible: bool = True
    # operators of the framework that computed something, with their calls
    library: Counter[str] = field(default_factory=Counter)
    # configurations of autotuned kernels that were verified
    configurations: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # not a method of this object: what refers to itself keeps its descriptors for longer
        more = partial(_framework_allowances, self.context.task.drawer, self.pool)
        self.mismatches = Mismatches(self.case.name, self.pool.results, self.context.bitwise, more)

    def result(self) -> CaseResult:
        """Check the case and return its result. Raises Failure if it is wrong."""
        self.check_sets()
        if self.mismatches.wrong:
            self.fail()
        self.repeat()
        if self.context.place.worker == "interpreted":
            self.configurations = configurations.check(
                self.context, self.case, self.pool, self.worker, self.call_once
            )
        worst = self.mismatches.worst
        return replace(
            unjudged_result(self.case),
            correct=True,
            error=worst.error,
            framework_error=worst.framework_error,
            tolerance=worst.limit,
            bitwise_equal_to_eager=all(f.bitwise_equal for f in self.mismatches.findings),
            bitwise_reproducible=self.reproducible,
        )

    def check_sets(self) -> None:
        """Check all sets. After a first wrong result the other families are still tried for a
        while, since the ones that fail help to find the mistake."""
        began = time.monotonic()
        most = batches.most_sets(self.pool, self.slots.count)
        by_state = {
            state: batches.divide(
                [input_set for s, input_set in self.pool.checking if s == state], most
            )
            for state in dict.fromkeys(s for s, _ in self.pool.checking)
        }
        longer = batches.longer([batch for its in by_state.values() for batch in its])
        for state, its_batches in by_state.items():
            write = partial(set_state, self.worker, self.pool, state, partly=True)
            self.guard("constructed", write)
            for batch in its_batches:
                if self.mismatches.wrong and (
                    state or time.monotonic() - began > DIAGNOSIS_SECONDS
                ):
                    return
                try:
                    self._check_batch(
                        batch, changed=bool(state), longer=any(batch is one for one in longer)
                    )
                except Failure:
                    if not self.mismatches.wrong:
                        raise
                    return

    def repeat(self) -> None:
        """Repeat the same inputs, on several threads if the machine has them: a result that changes
        is a race."""
        # an interpreter runs program instances one after another
        if self.context.place.mode != "execute":
            return
        searching = self.context.request.purpose == "search"
        most_s = SEARCH_REPEATING_SECONDS if searching else REPEATING_SECONDS
        at_once = self._most_repeated(most_s)
        first = self.pool.checking[0]
        changed = self.pool.changed or first
        doing = "repeated on all threads"
        with self.all_threads(doing):
            for (state, input_set), most in (
                (first, REPEATED_CALLS),
                (changed, 1),
            ):
                self.guard(doing, partial(set_state, self.worker, self.pool, state))
                earlier: dict[int, Any] = {}
                began = time.monotonic()
                for done in range(0, most, at_once):
                    with self.context.between_timings():
                        calls = min(at_once, most - done)
                        self._compare_again(input_set, calls, doing, earlier, changed=bool(state))
                    if time.monotonic() - began > most_s:
                        break
        self.guard(doing, lambda: set_state(self.worker, self.pool, 0))

    @contextlib.contextmanager
    def all_threads(self, doing: str) -> Iterator[None]:
        """Let the candidate use all processors in the block, if it is run at all. Raises
        Failure."""
        cpus = sorted(os.sched_getaffinity(0))
        self._use_threads(doing, len(cpus), cpus)
        yield
        self._use_threads(doing, 1, self.context.task.timing_cpus)

    def _use_threads(self, doing: str, count: int, cpus: list[int]) -> None:
        if self.context.place.mode == "execute":  # an interpreter has one
            self.guard(
                doing,
                lambda: self.worker.ask("threads", seconds=LOAD_SECONDS, count=count, cpus=cpus),
            )

    def _most_repeated(self, most_s: float) -> int:
        """Return how many calls repeat the same inputs in one burst, of which three may take longer
        than most_s."""
        if self.pool.shared:
            return bursts.CHECK_CALLS
        fitting = min(self.slots.count, int(most_s / max(self.pool.call_s, 1e-6)))
        return max(bursts.CHECK_CALLS, min(REPEATED_AT_ONCE, fitting))

    def _compare_again(
        self,
        input_set: InputSet,
        calls: int,
        doing: str,
        earlier: dict[int, Any],
        *,
        changed: bool,
    ) -> None:
        """Run another burst of calls that were right before. earlier: their outputs, by index.
        changed: with other parameters than in the burst before."""
        self.run_burst([input_set], [0] * calls, doing)
        for outputs in self._outputs(calls):
            for number, output in enumerate(outputs):
                if number in earlier and same_bits(output, earlier[number]):
                    continue
                self.reproducible &= number not in earlier
                earlier.setdefault(number, output.clone())
                finding = self.mismatches.compare(number, output, input_set)
                if finding.signal is not None:
                    name = "wrong.stale_parameters" if changed else "wrong.race"
                    text = (
                        f"case {self.case.name}, {doing}: right before, and now output "
                        f"{number}: {finding.detail}"
                    )
                    self.mismatches.wrong.append((name, text, finding))
                    self.fail()

    def call_once(
        self, input_set: InputSet, doing: str, key: str = "", *, manner: str = ""
    ) -> None:
        """Make one more call on inputs that were right before. key: of the model, by default the
        case's own. manner: see call_again. Raises Failure."""
        self.call_again([input_set], [0], doing, key, manner=manner)

    def call_again(
        self,
        sets: list[InputSet],
        order: list[int],
        doing: str,
        key: str = "",
        *,
        manner: str = "",
    ) -> None:
        """Make more calls on inputs that were right before. manner: see workers.call_manners.
        Raises Failure, whose message names the families of these calls only."""
        self.mismatches.shares.clear()
        self.run_burst(sets, order, doing, key=key, manner=manner)
        for index, outputs in zip(order, self._outputs(len(order)), strict=True):
            others = [each for each in sets if each is not sets[index]]
            for number, output in enumerate(outputs):
                self.mismatches.add(
                    number, output, sets[index], others, changed=False, repeated=False
                )
        if self.mismatches.wrong:
            name, text, finding = self.mismatches.wrong[0]
            self.mismatches.wrong[0] = (name, f"{doing}: {text}", finding)
            self.fail()

    def drop(self, key: str) -> None:
        """Let the worker forget a model. Raises Failure."""
        self.guard(
            "forgetting a model", lambda: self.worker.ask("drop", seconds=LOAD_SECONDS, key=key)
        )

    def fail(self) -> NoReturn:
        """Raise the failure of the first wrong result, with values if these may be shown."""
        raise self.mismatches.failure(*self._example())

    def _example(self) -> tuple[str, str]:
        """Return values of the output that was wrong first, on inputs that are not used for
        judging: the worst elements, and the first wrong rows with their inputs. Values of checking
        sets are not shown, since the same sets judge later candidates, which could memorise them.
        "" if such inputs are not cheap to draw, or if this output is right on them."""
        large = self.pool.set_bytes > SHOWN_BYTES or self.pool.call_s > SHOWN_SECONDS
        if self.mismatches.first is None or self.case.held_out or large:
            return "", ""
        (family, number), drawer = self.mismatches.first, self.context.task.drawer
        if 2 * self.pool.set_bytes > drawer.free_bytes():
            return "", ""
        try:
            input_set = drawer.draw_example(self.pool, family)
            self.guard("constructed", lambda: set_state(self.worker, self.pool, 0))
            self.run_burst([input_set], [0], f"{family} inputs")
        # the candidate is wrong already; this call would only have added values
        except (Failure, WorkerFailed):
            return "", ""
        output, allowance, framework = (
            self._outputs(1)[0][number],
            input_set.allowances[number],
            input_set.framework[number],
        )
        expected = input_set.expectation(number, output)
        values = oracle.worst_values(output, expected, allowance, framework)
        if not values:
            return "", ""
        inputs = tensors_of(input_set.file.value(input_set.layout, input_set.base))
        rows = oracle.first_wrong_rows(output, expected, allowance, inputs, framework)
        return (
            f"output {number}: {values}",
            f"case {self.case.name}, {family} inputs drawn for this message alone, output "
            f"{number}, {rows}",
        )

    def _check_batch(self, sets: list[InputSet], *, changed: bool, longer: bool) -> None:
        """Check sets and some of them again, which reveals held, stale and unstable outputs. Some
        are checked in a longer burst, which also reveals outputs that last for only a few calls.
        Its length is random, so that a candidate cannot count on it."""
        first, calls = not self.mismatches.findings, max(bursts.CHECK_CALLS, 3 * len(sets) // 2)
        if longer:
            most = most_held_calls(self.context, self.pool)
            calls = max(calls, most - secrets.randbelow(max(1, most // 3)))
        order = [number % len(sets) for number in range(max(bursts.CHECK_CALLS, len(sets)))]
        order += [
            secrets.randbelow(len(sets)) for _ in range(calls - len(order))
        ]  # random, since a rotation of buffers could share a period
        doing = describe_setting([input_set.family for input_set in sets], changed=changed)
        with self.context.between_timings():
            self._compare(sets, order, doing, first=first, changed=changed)

    def _compare(
        self, sets: list[InputSet], order: list[int], doing: str, *, first: bool, changed: bool
    ) -> None:
        result = self.run_burst(sets, order, doing, record=first)
        self.library.update(own_work.library_calls(result.data))
        outputs = self._outputs(len(order))
        for index, tensors in enumerate(outputs):
            repeated = index >= len(sets)
            if repeated and all(
                same_bits(a, b) for a, b in zip(tensors, outputs[order[index]], strict=True)
            ):
                continue
            self.reproducible &= not repeated
            others = [other for other in sets if other is not sets[order[index]]]
            for number, output in enumerate(tensors):
                self.mismatches.add(
                    number, output, sets[order[index]], others, changed=changed, repeated=repeated
                )

    def run_burst(
        self,
        sets: list[InputSet],
        order: list[int],
        doing: str,
        *,
        record: bool = False,
        key: str = "",
        manner: str = "",
    ) -> BurstResult:
        """Run one burst in this check's slots. Raises Failure."""
        seconds = max(
            self.context.place.patience_s, call_seconds(self.case, len(order), self.pool.call_s)
        )
        return self.guard(
            doing,
            lambda: bursts.run(
                self.worker,
                self.slots,
                key or self.case.name,
                sets,
                order,
                seconds,
                record=record,
                manner=manner,
            ),
        )

    def guard(self, doing: str, action: Callable[[], T]) -> T:
        """Run an action on the candidate's worker. Raises Failure."""
        return self.context.guard(f"case {self.case.name}, {doing}", self.worker, action)

    def _outputs(self, calls: int) -> list[list[Any]]:
        return [self.slots.tensors(self.pool.outputs, index) for index in range(calls)]


def _framework_allowances(
    drawer: Drawer, pool: CasePool, input_set: InputSet
) -> Sequence[Sequence[tolerance.FrameworkAllowance]]:
    """Return what the framework's own error would allow of a checking set and more of its kind;
    nothing of other sets."""
    for state, each in pool.checking:
        if each is input_set and each.family != "special":  # which fails no candidate
            return drawer.framework_allowances(pool, state, each.family, each)
    return []


def unjudged_result(case: Case) -> CaseResult:
    """Return the result of a case before it is judged."""
    return CaseResult(
        case.name,
        case.weight,
        case.protected,
        case.held_out,
        arguments=dict(case.arguments) if case.held_out else {},
    )


def most_held_calls(context: StageContext, pool: CasePool) -> int:
    """Return the most outputs held at once in the longer bursts; fewer large ones in a search."""
    searching = context.request.purpose == "search"
    most_bytes = bursts.SEARCH_HELD_BYTES if searching else bursts.HELD_BYTES
    return bursts.retained_calls(pool, context.place.patience_s, most_bytes)
