"""The stage `verify`: every case on every checking set."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from ...types import Case, CaseResult, Signal
from ..attribution import launched_kernels, own_work
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..errors import WorkerFailed
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..exchange.slots import BurstResult, Slots
from ..failures import Failure
from ..processes import answers
from ..processes.worker import Worker
from ..run import LOAD_SECONDS, Run, call_seconds, prepare, set_state
from . import configurations

T = TypeVar("T")
DIAGNOSIS_SECONDS = 5.0  # how long a case that is wrong is looked at further
# A set whose values are told holds less, and a call of the reference takes less: drawing it must
# cost little beside the check
SHOWN_BYTES, SHOWN_SECONDS = 256 << 20, 1.0
REPEATED_BURSTS, REPEATING_SECONDS = 12, 0.5


def verify(run: Run) -> dict[str, Any]:
    worker = run.loaded
    assert worker is not None
    slots = None
    for number, case in enumerate(run.cases):
        run.tell("verify", f"case {case.name}", 0.15 + 0.25 * number / len(run.cases))
        pool = run.task.pool(case.name)
        slots = prepare(run, worker, pool, bursts.retained_calls(pool, run.place.patience_s), slots)
        try:
            run.results[case.name] = _check_case(run, case, pool, worker, slots)
        except Failure as failure:
            if not run.ablating or failure.status != "incorrect":
                raise
            run.results[case.name] = CaseResult(
                case.name, case.weight, case.protected, case.held_out, detail=failure.message
            )
            run.signals += failure.signals
        run.guard(
            f"case {case.name}",
            worker,
            lambda name=case.name: worker.ask(  # type: ignore[misc]
                "drop", seconds=LOAD_SECONDS, key=name
            ),
        )
        if run.confirming:
            pool.release(checking=True)
    counted = run.guard(
        "counting launches",
        worker,
        lambda: worker.ask("own_kernels", seconds=LOAD_SECONDS, mode="count"),
    )
    run.launches, run.called = counted.values[0], answers.called(worker.data(counted))
    if any(b.ok and not b.on_host for b in run.builds.records):
        run.kernels, _ = launched_kernels.collect(run, worker, LOAD_SECONDS)
    own_work.police(run)
    families = {c.name: run.task.pools[c.name].families for c in run.cases}
    return {"families": families, "library": run.library, "configurations": run.configurations}


def _check_case(run: Run, case: Case, pool: CasePool, worker: Worker, slots: Slots) -> CaseResult:
    check = _CaseCheck(run, case, pool, worker, slots)
    check.all_sets()
    if check.wrong:
        check.fail()
    check.repeat()
    if run.place.worker == "interpreted":
        configurations.check(run, case, pool, worker, check.once)
    if check.special:
        run.signals.append(Signal("special_values", f"case {case.name}: {check.special}"))
    worst = max(check.findings, key=lambda f: f.error / max(f.limit, 1e-300))
    return CaseResult(
        name=case.name,
        weight=case.weight,
        protected=case.protected,
        held_out=case.held_out,
        correct=True,
        error=worst.error,
        framework_error=worst.framework_error,
        tolerance=worst.limit,
        bitwise_equal_to_eager=all(f.bitwise_equal for f in check.findings),
        bitwise_reproducible=check.reproducible,
    )


@dataclass
class _CaseCheck:
    """One case of one candidate, and what its sets have shown so far."""

    run: Run
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

    def all_sets(self) -> None:
        """After a first wrong result the other families are still tried for a while: which of them
        fail says what is wrong."""
        began = time.monotonic()
        for state in dict.fromkeys(s for s, _ in self.pool.checking):
            sets = [held for s, held in self.pool.checking if s == state]
            self._guard("constructed", lambda s=state: set_state(self.worker, self.pool, s))  # type: ignore[misc]
            for start in range(0, len(sets), 2):
                if self.wrong and (state or time.monotonic() - began > DIAGNOSIS_SECONDS):
                    return
                try:
                    self._pair(sets[start : start + 2], changed=bool(state))
                except Failure:
                    if not self.wrong:
                        raise
                    return

    def repeat(self) -> None:
        """The same inputs again and again, on several threads where the machine has them: a result
        that moves is a race."""
        # an interpreter runs one program instance after the other
        if self.run.place.mode != "execute":
            return
        cpus = sorted(os.sched_getaffinity(0))
        _, held = self.pool.checking[0]
        doing = f"repeated on {len(cpus)} threads"
        self._guard(doing, lambda: set_state(self.worker, self.pool, 0))
        self._guard(
            doing,
            lambda: self.worker.ask("threads", seconds=LOAD_SECONDS, count=len(cpus), cpus=cpus),
        )
        known: dict[int, Any] = {}
        began = time.monotonic()
        for _ in range(REPEATED_BURSTS):
            self._burst([held], [0] * bursts.CHECK_CALLS, doing)
            for outputs in self._outputs(bursts.CHECK_CALLS):
                for number, output in enumerate(outputs):
                    if number in known and same_bits(output, known[number]):
                        continue
                    self.reproducible &= number not in known
                    known.setdefault(number, output.clone())
                    finding = oracle.compare(
                        output, held.expected[number], held.allowed[number], held.framework[number]
                    )
                    if finding.signal is not None:
                        text = (
                            f"case {self.case.name}, {doing}: right before, and now output "
                            f"{number}: {finding.detail}"
                        )
                        self.wrong.append(("wrong.race", text, finding))
                        self.fail()
            if time.monotonic() - began > REPEATING_SECONDS:
                break
        cpu = self.run.task.timing_cpus
        self._guard(
            doing, lambda: self.worker.ask("threads", seconds=LOAD_SECONDS, count=1, cpus=cpu)
        )

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
        if shown := self._shown():
            text += f"; on inputs drawn for this message alone, {shown}"
        failing = [f for f, share in self.shares.items() if share]
        passing = [f for f, share in self.shares.items() if not share]
        if failing and passing:
            text += f"; wrong with {', '.join(failing)} inputs, right with {', '.join(passing)}"
        self.run.results[case.name] = CaseResult(
            case.name, case.weight, case.protected, case.held_out, False,
            _finite(finding.error), finding.framework_error, finding.limit, finding.detail,
        )  # fmt: skip
        evidence = {f"wrong share, {family} inputs": share for family, share in self.shares.items()}
        others = tuple(Signal(other, finding.detail) for other in finding.also if other != name)
        raise Failure("incorrect", text, (Signal(name, text, evidence), *others))

    def _shown(self) -> str:
        """Values of the output that was wrong first, on inputs that nobody is judged on. Those of
        checking sets are not told: the same sets judge the next candidates, which could know them
        by heart. "" where no such inputs can be had cheaply, or this output is right there."""
        large = self.pool.set_bytes > SHOWN_BYTES or self.pool.call_s > SHOWN_SECONDS
        if self.first is None or self.case.held_out or large:
            return ""
        (family, number), drawer = self.first, self.run.task.drawer
        if 2 * self.pool.set_bytes > drawer.room():
            return ""
        try:
            held = drawer.shown(self.pool, family)
            self._guard("constructed", lambda: set_state(self.worker, self.pool, 0))
            self._burst([held], [0], f"{family} inputs")
        # it is wrong already, and what happens here adds nothing but values
        except (Failure, WorkerFailed):
            return ""
        told = oracle.values(
            self._outputs(1)[0][number],
            held.expected[number],
            held.allowed[number],
            held.framework[number],
        )
        return f"output {number}: {told}" if told else ""

    def _pair(self, pair: list[InputSet], *, changed: bool) -> None:
        """Two sets and the first again, so that held, stale and unstable outputs show; the first
        two in a longer burst, so that an output which lasts for a few calls only shows, too."""
        first = not self.findings
        calls = (
            bursts.retained_calls(self.pool, self.run.place.patience_s)
            if first
            else bursts.CHECK_CALLS
        )
        order = [number % len(pair) for number in range(bursts.CHECK_CALLS)]
        order += [
            secrets.randbelow(len(pair)) for _ in range(calls - len(order))
        ]  # no period, which a ring of outputs could share
        families = " and ".join(dict.fromkeys(h.family for h in pair))
        doing = f"{'after the parameters changed, ' if changed else ''}{families} inputs"
        result = self._burst(pair, order, doing, record=first)
        own_work.note_library(self.run, result.data)
        outputs = self._outputs(calls)
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
        bitwise = self.run.bitwise and held.family != "special"
        finding = oracle.compare(
            output, held.expected[number], held.allowed[number], held.framework[number], bitwise
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
        if changed:
            name = "wrong.stale_parameters"
        elif repeated and not self.wrong:
            name = "wrong.race"
        elif number >= self.pool.results and not self.wrong:
            name = "wrong.gradients"
        elif any(_right(output, number, other) for other in others):
            name = "wrong.held_output"
            what = (
                f"output {number} is that of another call: one buffer for several calls, or a "
                "result kept"
            )
        if not self.wrong and name in (finding.signal, "wrong.gradients"):
            self.first = (held.family, number)
        text = (
            f"case {self.case.name}{', after the parameters changed' if changed else ''}, "
            f"{held.family} inputs, {what}"
        )
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
            self.run.place.patience_s, call_seconds(self.case, len(order), self.pool.call_s)
        )
        return self._guard(
            doing,
            lambda: bursts.run(
                self.worker, self.slots, self.case.name, sets, order, seconds, record=record
            ),
        )

    def _guard(self, doing: str, action: Callable[[], T]) -> T:
        return self.run.guard(f"case {self.case.name}, {doing}", self.worker, action)

    def _outputs(self, calls: int) -> list[list[Any]]:
        return [self.slots.tensors(self.pool.outputs, index) for index in range(calls)]


def _special_input(held: InputSet) -> str:
    """Which input of the family `special` was made so."""
    import torch

    values = held.file.value(held.layout, held.base)
    found = [
        f"input {number} ({str(v.dtype).removeprefix('torch.')}{list(v.shape)})"
        for number, v in enumerate(values if isinstance(values, (list, tuple)) else [values])
        if isinstance(v, torch.Tensor) and v.is_floating_point() and not bool(v.isfinite().all())
    ]
    return ", ".join(found[:3]) or "the inputs"


def _right(output: Any, number: int, held: InputSet) -> bool:
    """Whether an output is right for these inputs."""
    return oracle.right(output, held.expected[number], held.allowed[number], held.framework[number])


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
