"""The stage `verify`: every case on every checking set."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from ...types import Case, CaseResult, Signal
from ...wire.launches import Captured
from ...wire.nesting import tensors_of
from ..attribution import launched_kernels, own_work
from ..candidate_workers import LOAD_SECONDS, call_seconds, prepare, set_state
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..errors import WorkerFailed
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..exchange.slots import BurstResult, Slots
from ..failures import Failure
from ..outcomes import Built, Verified
from ..processes import answers
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.input_families import GROWN, UNEVEN
from . import configurations

T = TypeVar("T")
DIAGNOSIS_SECONDS = 5.0  # how long a case that is wrong is looked at further
# A set whose values are told holds less, and a call of the reference takes less: drawing it must
# cost little beside the check
SHOWN_BYTES, SHOWN_SECONDS = 256 << 20, 1.0
# families whose results differ from set to set and must be right
VARIED = ("dense", "scaled", "small", "shifted", "negative", "spike", *UNEVEN)
# how long the same inputs are repeated; in a search, whose winner is checked again anyway
REPEATED_BURSTS, REPEATING_SECONDS, SEARCH_REPEATING_SECONDS = 12, 0.5, 0.15


def verify(context: StageContext, built: Built) -> Verified:
    """Every case on every checking set, in the worker that has loaded the candidate."""
    assert built.worker is not None
    checking = _Checking(context, built.worker)
    try:
        checking.run()
    except Failure as failure:
        return checking.outcome(failure)
    except Exception as error:
        starved = context.starved("stage verify", built.worker, error)
        if starved is None:
            raise
        return checking.outcome(starved)
    return checking.outcome()


class _Checking:
    """What checking one candidate has found so far."""

    def __init__(self, context: StageContext, worker: Worker) -> None:
        self._context, self._worker = context, worker
        self._results: dict[str, CaseResult] = {}
        self._signals: list[Signal] = []
        self._library: Counter[str] = Counter()
        self._configurations: dict[str, Any] = {}
        self._launches, self._called = 0, dict[str, dict[str, int]]()
        self._kernels: list[Captured] = []

    def run(self) -> None:
        """Raises Failure."""
        context, worker, slots = self._context, self._worker, None
        for number, case in enumerate(context.cases):
            fraction = 0.15 + 0.25 * number / len(context.cases)
            context.tell("verify", f"case {case.name}", fraction)
            pool = context.task.pool(case.name)
            calls = _most_held(context, pool)
            slots = prepare(context, worker, pool, calls, slots)
            self._case(_CaseCheck(context, case, pool, worker, slots))
            context.guard(
                f"case {case.name}",
                worker,
                lambda name=case.name: worker.ask(  # type: ignore[misc]
                    "drop", seconds=LOAD_SECONDS, key=name
                ),
            )
            if context.confirming:
                pool.release(checking=True)
        self._count()

    def outcome(self, failure: Failure | None = None) -> Verified:
        """As far as it came."""
        pools, cases = self._context.task.pools, self._context.cases
        data = {
            "families": {c.name: pools[c.name].families for c in cases if c.name in pools},
            "library": dict(self._library),
            "configurations": self._configurations,
        }
        return Verified(
            {} if failure else data,
            self._signals,
            self._results,
            failure,
            self._launches,
            self._called,
            self._kernels,
        )

    def _case(self, check: _CaseCheck) -> None:
        case = check.case
        try:
            self._results[case.name] = check.result()
        except Failure as failure:
            if not self._context.ablating or failure.status != "incorrect":
                if failure.wrong is not None:
                    self._results[case.name] = _wrong(case, failure.wrong[1])
                raise
            self._results[case.name] = replace(_begun(case), detail=failure.message)
            self._signals += failure.signals
        finally:
            self._library.update(check.library)
            if check.configurations:
                self._configurations[case.name] = check.configurations
        if self._results[case.name].correct and check.special:
            text = f"case {case.name}: {check.special}"
            self._signals.append(Signal("special_values", text))

    def _count(self) -> None:
        """Who computed, in the words of the candidate's process. Raises Failure where the policy
        refuses that."""
        context, worker = self._context, self._worker
        counted = context.guard(
            "counting launches",
            worker,
            lambda: worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="count"),
        )
        self._launches, self._called = counted.values[0], answers.called(worker.data(counted))
        if any(b.ok and not b.on_host for b in context.builds.records):
            self._kernels, _ = launched_kernels.collect(context, worker, LOAD_SECONDS)
        policy = context.request.policy
        found = own_work.unlike_own(policy, self._launches, self._library)
        own_work.refuse(policy, found)
        self._signals += found


def _wrong(case: Case, finding: oracle.Finding) -> CaseResult:
    return replace(
        _begun(case),
        error=_finite(finding.error),
        framework_error=finding.framework_error,
        tolerance=finding.limit,
        detail=finding.detail,
    )


def _begun(case: Case) -> CaseResult:
    """What is known of a case before anything of it was judged."""
    return CaseResult(
        case.name,
        case.weight,
        case.protected,
        case.held_out,
        arguments=dict(case.arguments) if case.held_out else {},
    )


@dataclass
class _CaseCheck:
    """One case of one candidate, and what its sets have shown so far."""

    context: StageContext
    case: Case
    pool: CasePool
    worker: Worker
    slots: Slots
    findings: list[oracle.Finding] = field(default_factory=list)
    wrong: list[tuple[str, str, oracle.Finding]] = field(default_factory=list)  # signal, text
    # family and number of the output that was wrong first, where its values alone are
    first: tuple[str, int] | None = None
    # family -> largest share of wrong elements
    shares: dict[str, float] = field(default_factory=dict)
    special: str = ""  # what differs with special values in the inputs
    reproducible: bool = True
    # operators of the framework that computed something, with their calls
    library: Counter[str] = field(default_factory=Counter)
    # of autotuned kernels: which were verified
    configurations: dict[str, Any] = field(default_factory=dict)

    def result(self) -> CaseResult:
        """Of a case that is right. Raises Failure."""
        self.all_sets()
        if self.wrong:
            self.fail()
        self.repeat()
        if self.context.place.worker == "interpreted":
            self.configurations = configurations.check(
                self.context, self.case, self.pool, self.worker, self.once
            )
        worst = max(self.findings, key=lambda f: f.error / max(f.limit, 1e-300))
        return replace(
            _begun(self.case),
            correct=True,
            error=worst.error,
            framework_error=worst.framework_error,
            tolerance=worst.limit,
            bitwise_equal_to_eager=all(f.bitwise_equal for f in self.findings),
            bitwise_reproducible=self.reproducible,
        )

    def all_sets(self) -> None:
        """After a first wrong result the other families are still tried for a while: which of them
        fail says what is wrong."""
        began = time.monotonic()
        by_state: dict[int, list[list[InputSet]]] = {}
        for state in dict.fromkeys(s for s, _ in self.pool.checking):
            sets = [held for s, held in self.pool.checking if s == state]
            by_state[state] = [sets[start : start + 2] for start in range(0, len(sets), 2)]
        longer = _longer([pair for pairs in by_state.values() for pair in pairs])
        for state, pairs in by_state.items():
            self._guard("constructed", lambda s=state: set_state(self.worker, self.pool, s))  # type: ignore[misc]
            for pair in pairs:
                if self.wrong and (state or time.monotonic() - began > DIAGNOSIS_SECONDS):
                    return
                try:
                    self._pair(pair, changed=bool(state), longer=any(pair is one for one in longer))
                except Failure:
                    if not self.wrong:
                        raise
                    return

    def repeat(self) -> None:
        """The same inputs again and again, on several threads where the machine has them: a result
        that moves is a race."""
        # an interpreter runs one program instance after the other
        if self.context.place.mode != "execute":
            return
        cpus = sorted(os.sched_getaffinity(0))
        _, held = self.pool.checking[0]
        doing = f"repeated on {len(cpus)} threads"
        self._guard(doing, lambda: set_state(self.worker, self.pool, 0))
        self._guard(
            doing,
            lambda: self.worker.ask("threads", seconds=LOAD_SECONDS, count=len(cpus), cpus=cpus),
        )
        searching = self.context.request.purpose == "search"
        most_s = SEARCH_REPEATING_SECONDS if searching else REPEATING_SECONDS
        known: dict[int, Any] = {}
        began = time.monotonic()
        for _ in range(REPEATED_BURSTS):
            with self.context.between_timings():
                self._compare_again(held, doing, known)
            if time.monotonic() - began > most_s:
                break
        cpu = self.context.task.timing_cpus
        self._guard(
            doing, lambda: self.worker.ask("threads", seconds=LOAD_SECONDS, count=1, cpus=cpu)
        )

    def _compare_again(self, held: InputSet, doing: str, known: dict[int, Any]) -> None:
        """One more burst of what was right before. known: its outputs so far, by number."""
        self._burst([held], [0] * bursts.CHECK_CALLS, doing)
        for outputs in self._outputs(bursts.CHECK_CALLS):
            for number, output in enumerate(outputs):
                if number in known and same_bits(output, known[number]):
                    continue
                self.reproducible &= number not in known
                known.setdefault(number, output.clone())
                finding = oracle.compare(
                    output,
                    held.wanted(number, output),
                    held.allowed[number],
                    held.framework[number],
                )
                if finding.signal is not None:
                    text = (
                        f"case {self.case.name}, {doing}: right before, and now output "
                        f"{number}: {finding.detail}"
                    )
                    self.wrong.append(("wrong.race", text, finding))
                    self.fail()

    def once(self, held: InputSet, doing: str) -> None:
        """One more call on inputs that were right before. Raises Failure."""
        self._burst([held], [0], doing)
        for number, output in enumerate(self._outputs(1)[0]):
            self._output(number, output, held, [], changed=False, repeated=False)
        if self.wrong:
            name, text, finding = self.wrong[0]
            self.wrong[0] = (name, f"{doing}: {text}", finding)
            self.fail()

    def fail(self) -> NoReturn:
        """The first wrong result, with the families that fail and those that do not."""
        case, (name, text, finding) = self.case, self.wrong[0]
        shown, rows = self._shown()
        if shown:
            text += f"; on inputs drawn for this message alone, {shown}"
        failing = [f for f, share in self.shares.items() if share]
        passing = [f for f, share in self.shares.items() if not share]
        if failing and passing:
            text += f"; wrong with {', '.join(failing)} inputs, right with {', '.join(passing)}"
        evidence = {f"wrong share, {family} inputs": share for family, share in self.shares.items()}
        others = tuple(Signal(other, finding.detail) for other in finding.also if other != name)
        raise Failure(
            "incorrect",
            text,
            (Signal(name, text, evidence), *others),
            rows,
            wrong=(case.name, finding),
        )

    def _shown(self) -> tuple[str, str]:
        """Values of the output that was wrong first, on inputs that nobody is judged on: the worst
        elements, and the first wrong rows with their inputs. Those of checking sets are not told:
        the same sets judge the next candidates, which could know them by heart. "" where no such
        inputs can be had cheaply, or this output is right there."""
        large = self.pool.set_bytes > SHOWN_BYTES or self.pool.call_s > SHOWN_SECONDS
        if self.first is None or self.case.held_out or large:
            return "", ""
        (family, number), drawer = self.first, self.context.task.drawer
        if 2 * self.pool.set_bytes > drawer.free_bytes():
            return "", ""
        try:
            held = drawer.draw_example(self.pool, family)
            self._guard("constructed", lambda: set_state(self.worker, self.pool, 0))
            self._burst([held], [0], f"{family} inputs")
        # it is wrong already, and what happens here adds nothing but values
        except (Failure, WorkerFailed):
            return "", ""
        own, allowed, framework = (
            self._outputs(1)[0][number],
            held.allowed[number],
            held.framework[number],
        )
        wanted = held.wanted(number, own)
        told = oracle.worst_values(own, wanted, allowed, framework)
        if not told:
            return "", ""
        inputs = tensors_of(held.file.value(held.layout, held.base))
        rows = oracle.first_wrong_rows(own, wanted, allowed, inputs, framework)
        return (
            f"output {number}: {told}",
            f"case {self.case.name}, {family} inputs drawn for this message alone, output "
            f"{number}, {rows}",
        )

    def _pair(self, pair: list[InputSet], *, changed: bool, longer: bool) -> None:
        """Two sets and the first again, so that held, stale and unstable outputs show; some in a
        longer burst, so that an output which lasts for a few calls only shows, too. How much longer
        nobody knows, who could count."""
        first, calls = not self.findings, bursts.CHECK_CALLS
        if longer:
            most = _most_held(self.context, self.pool)
            calls = max(calls, most - secrets.randbelow(max(1, most // 3)))
        order = [number % len(pair) for number in range(bursts.CHECK_CALLS)]
        order += [
            secrets.randbelow(len(pair)) for _ in range(calls - len(order))
        ]  # no period, which a ring of outputs could share
        doing = _setting([held.family for held in pair], changed=changed)
        with self.context.between_timings():
            self._compare(pair, order, doing, first=first, changed=changed)

    def _compare(
        self, pair: list[InputSet], order: list[int], doing: str, *, first: bool, changed: bool
    ) -> None:
        result = self._burst(pair, order, doing, record=first)
        self.library.update(own_work.library_calls(result.data))
        outputs = self._outputs(len(order))
        for index, own in enumerate(outputs):
            repeated = index >= len(pair)
            if repeated and all(
                same_bits(a, b) for a, b in zip(own, outputs[order[index]], strict=True)
            ):
                continue
            self.reproducible &= not repeated
            others = [held for held in pair if held is not pair[order[index]]]
            for number, output in enumerate(own):
                self._output(
                    number, output, pair[order[index]], others, changed=changed, repeated=repeated
                )

    def _output(
        self,
        number: int,
        output: Any,
        held: InputSet,
        others: list[InputSet],
        *,
        changed: bool,
        repeated: bool,
    ) -> None:
        bitwise = self.context.bitwise and held.family != "special"
        finding = oracle.compare(
            output,
            held.wanted(number, output),
            held.allowed[number],
            held.framework[number],
            bitwise,
        )
        if finding.signal is None:
            self.findings.append(finding)
            if held.family != "special":
                self.shares.setdefault(held.family, 0.0)
            return
        what = f"output {number}: {finding.detail}"
        if held.family == "special":
            self.special = self.special or (
                f"NaN, infinities and the largest numbers in {_special_input(held)} come out "
                f"otherwise than in the reference, {what}; this fails no candidate and bars it "
                "from nothing"
            )
            return
        name = finding.signal
        if changed and held.family != GROWN:
            name = "wrong.stale_parameters"
        elif any(_right(output, number, other) for other in others):
            # before all others: in a ring of outputs it may be the repeated calls that are found
            name = "wrong.held_output"
            what = (
                f"output {number} is that of another call: one buffer for several calls, or a "
                "result kept"
            )
        elif repeated and not self.wrong:
            name = "wrong.race"
        elif number >= self.pool.results and not self.wrong:
            name = "wrong.gradients"
        if not self.wrong and not changed and name in (finding.signal, "wrong.gradients"):
            self.first = (held.family, number)
        text = f"case {self.case.name}, {_setting([held.family], changed=changed)}, {what}"
        if math.isfinite(finding.error) and finding.limit:
            figures = (
                f"error {finding.error:.2e}, allowed {finding.limit:.2e}, the framework's own "
                f"{finding.framework_error:.2e}"
            )
            text += f" ({figures})"
        self.wrong.append((name, text, finding))
        self.shares[held.family] = max(self.shares.get(held.family, 0.0), finding.share)

    def _burst(
        self, sets: list[InputSet], order: list[int], doing: str, *, record: bool = False
    ) -> BurstResult:
        seconds = max(
            self.context.place.patience_s, call_seconds(self.case, len(order), self.pool.call_s)
        )
        return self._guard(
            doing,
            lambda: bursts.run(
                self.worker, self.slots, self.case.name, sets, order, seconds, record=record
            ),
        )

    def _guard(self, doing: str, action: Callable[[], T]) -> T:
        return self.context.guard(f"case {self.case.name}, {doing}", self.worker, action)

    def _outputs(self, calls: int) -> list[list[Any]]:
        return [self.slots.tensors(self.pool.outputs, index) for index in range(calls)]


def _setting(families: list[str], *, changed: bool) -> str:
    """In which inputs and parameters."""
    if families == [GROWN]:
        return "dense inputs, with parameters as large as training may make them"
    after = "after the parameters changed, " if changed else ""
    return f"{after}{' and '.join(dict.fromkeys(families))} inputs"


def _most_held(context: StageContext, pool: CasePool) -> int:
    """Outputs that are held at once in the longer bursts; fewer large ones in a search."""
    searching = context.request.purpose == "search"
    most_bytes = bursts.SEARCH_HELD_BYTES if searching else bursts.HELD_BYTES
    return bursts.retained_calls(pool, context.place.patience_s, most_bytes)


def _longer(pairs: list[list[InputSet]]) -> list[list[InputSet]]:
    """The first of these pairs, and one of the others in which results differ from call to call:
    the longer bursts."""
    others = [pair for pair in pairs[1:] if all(held.family in VARIED for held in pair)]
    return pairs[:1] + ([secrets.choice(others)] if others else [])


def _special_input(held: InputSet) -> str:
    """Which input of the family `special` was made so."""
    found = [
        f"input {number} ({str(v.dtype).removeprefix('torch.')}{list(v.shape)})"
        for number, v in enumerate(tensors_of(held.file.value(held.layout, held.base)))
        if v.is_floating_point() and not bool(v.isfinite().all())
    ]
    return ", ".join(found[:3]) or "the inputs"


def _right(output: Any, number: int, held: InputSet) -> bool:
    """Whether an output is right for these inputs."""
    wanted = held.wanted(number, output)
    return oracle.is_right(output, wanted, held.allowed[number], held.framework[number])


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
