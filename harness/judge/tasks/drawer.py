"""Drawing the input sets of a case: from secret seeds, by a reference worker, into files that a
worker is shown once, or into memory of the judge's on a device."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...settings import task_seconds, timing_effort
from ...targets import DeviceFamily, cpu
from ...types import Operator
from ...wire import buffers, frames
from ...workers import operators, parameter_states, rounding
from ...workers.families import FAMILIES, PLAIN, SHIFT, are_exact
from ..correctness import decades, distance, small_values, tolerance
from ..device import host_memory
from ..errors import WorkerFailed
from ..exchange import device_link, input_sets
from ..exchange.bursts import working_bytes
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half, InputSet
from ..processes import answers
from ..processes.worker import Worker
from . import set_memory

if TYPE_CHECKING:
    import torch

POOL_BYTES = 1 << 30  # of timing sets per case
FEW_BYTES, FEW_SECONDS = 256 << 20, 0.15  # of those beyond BURSTS, and of calls on them
HOST_BURST_US, DEVICE_BURST_US = 100.0, 200.0  # calls are timed in bursts of about this length
SHORT_US = 1_000.0  # calls that are handed over by packet
# Calls on a CPU that go before and are not measured, below so many microseconds: both sides find
# caches as their own calls left them. A copy of eager that warmed itself looked 1.15 to 1.5 times
# as fast at 14 us. What takes so long that caches are a small part of it begins with those of both
# sides as the judge's copies left them.
WARM_CALLS = ((6, 100.0), (2, SHORT_US), (1, 5_000.0), (0, math.inf))
BURSTS = 8  # per process; more where a case is small: the interval narrows with their number
# of a set that takes long to draw, and how many of them a search draws at least
DEAR_BYTES, DEAR_BURSTS = 512 << 10, 4
MORE_BURSTS, CONFIRMING_BURSTS = (
    max(BURSTS, round(timing_effort() * bursts)) for bursts in (64, 128)
)
MAX_CALLS, MOST_HOST_CALLS = 32, 8
# On a device where the judge's clock measures bursts, which is off by 2 us for each (H200) and
# takes 3 ms: so long, or of so many calls, so many of them in a process, so many calls that are a
# burst of their own, and so many bursts that call nothing; in a search and in a confirmation.
QUEUED_BURST_US, MOST_QUEUED_CALLS, QUEUED_BURSTS, QUEUED_ALONE, QUEUED_NOTHINGS = (
    (300.0, 1_000.0),
    (32, 96),
    (6, 8),
    (8, 32),
    (5, 15),
)
# of a case whose operators are taken apart: what they hand on needs several times as much
GRAPH_BYTES = 1 << 28
# for each thing a task is asked to do
TASK_SECONDS = task_seconds()
_PLACES_BYTES = 64  # of JSON, for where an output lies, and once more around all
LARGE_BYTES = 16 << 20  # of one set: fewer checking sets then
SETS_SHARE = 0.4  # of a device's free memory, for checking sets: workers need some, too
# Families of timed sets: who looks at a sample of plain inputs, in which elements are alike, is
# wrong there, and who knows beforehand what their averages are.
MOVED = "moved"
UNEVEN = ("uneven", "raised", MOVED)
# on their limits, which one draw gave and others are held to: moved inputs are as tame as plain
# ones
UNEVEN_FACTOR, MOVED_FACTOR = 4.0, 2.0
UNEVEN_SHARE = 0.5  # of timed sets
# Where an input names a value of each row, most timed sets are so that it has most of the softmax,
# which one look tells: who does the work in these alone has done it in most. Their limits hold for
# other draws as they are if an output has so many elements, each with a likelihood of its own, and
# of 16 bits at so many times the framework's error (those of 128 losses differ by a tenth).
NAMED, NAMED_SHARE, NAMED_UNEVEN_SHARE, MANY_NAMED, NAMED_TIMES = "named", 0.6, 0.25, 64, 1.5
GROWN = "grown"  # the checking family of which the parameters are other ones
# per process of a device: calls that are a burst of their own, fewer where a set is large
ALONE = 8


class Drawer:
    """Draws sets through one reference worker."""

    def __init__(self, worker: Worker, family: DeviceFamily = cpu, *, shared: bool = False) -> None:
        self._worker, self._family, self._shared = worker, family, shared

    def describe(self, case: str) -> CasePool:
        """Construct the case's reference and learn its layouts. Raises WorkerFailed("task")."""
        seed = secrets.randbits(48)
        reply = self._worker.ask("describe", seconds=TASK_SECONDS, case=case, seed=seed)
        pool = CasePool(case, self._worker.data(reply), seed, shared=self._shared)
        pool.init_fd = buffers.create("init", int(pool.describe["init"]["bytes"]))
        self._worker.ask("init", [pool.init_fd], seconds=TASK_SECONDS, case=case)
        buffers.seal(pool.init_fd)
        return pool

    def graph(self, pool: CasePool) -> tuple[tuple[Operator, ...], str]:
        """What a described case computes, or why that is not known."""
        if pool.input_bytes + pool.slot_bytes > GRAPH_BYTES:
            return (), f"its first case has more than {GRAPH_BYTES >> 20} MiB"
        told = self._worker.data(
            self._worker.ask("graph", seconds=TASK_SECONDS, case=pool.name, seed=pool.seed)
        )
        return answers.graph(told)

    def construct(self, pool: CasePool) -> None:
        """Construct the reference of a case that another process has described."""
        known = {
            "outputs": pool.outputs,
            "doubled": pool.describe["doubled"],
            "upstream": pool.upstream,
        }
        self._worker.ask("construct", seconds=TASK_SECONDS, case=pool.name, seed=pool.seed, **known)

    def state(self, pool: CasePool, seed: int) -> int:
        """Put the reference into a state (0: as constructed) and return the values' descriptor."""
        if seed in pool.states:
            if seed != pool.state:
                self._worker.ask("set_state", seconds=TASK_SECONDS, case=pool.name, seed=seed)
        else:
            fd = buffers.create("state", int(pool.describe["state_layout"]["bytes"]))
            self._worker.ask("set_state", [fd], seconds=TASK_SECONDS, case=pool.name, seed=seed)
            buffers.seal(fd)
            pool.states[seed] = fd
        pool.state = seed
        return pool.states[seed]

    def take(self, pool: CasePool, seed: int) -> None:
        """Put the reference into a state that another process was put into."""
        self._worker.ask("take_state", [pool.states[seed]], seconds=TASK_SECONDS, case=pool.name)

    def checking(self, pool: CasePool) -> None:
        """Fill the checking sets: two plain draws, one of each family that this task can bear, one
        after a parameter change."""
        if pool.checking:
            return
        self.state(pool, 0)
        again = self._draw(pool, "dense").expected
        plain = [
            held for _ in range(2) if (held := self._checked(pool, "dense", again)) is not None
        ]
        pool.checking = [(0, held) for held in plain]
        _note_faint(pool, plain, again)
        drawn = zip(*(held.expected for held in plain), again, strict=True)
        pool.predictable = [
            n for n, own in enumerate(drawn) if tolerance.are_predictable(own, pool.allowances[n])
        ]
        del again, drawn  # of a large case each holds as much as a set
        if self._spare(pool) == 0:
            del plain[1:], pool.checking[1:]  # one of a family shows more
        for family in _families(pool)[: self._spare(pool)]:
            held = self._checked(pool, family)
            if held is not None:
                pool.checking.append((0, held))
                if family in (*UNEVEN, NAMED):
                    pool.of_family[family] = of_others(pool, held)
        # who gives one set's outputs for another's shows with two
        if len(pool.checking) < 2 and (held := self._checked(pool, "dense")) is not None:
            pool.checking.append((0, held))
        if pool.describe["state"]:
            changed = parameter_states.draw("changed")
            self.state(pool, changed)
            held = self._checked(pool, "dense")
            if held is not None:
                pool.checking.append((changed, held))
            self._grow(pool)
            self.state(pool, 0)

    def _grow(self, pool: CasePool) -> None:
        """One set with parameters of other sizes: of all tensors, else of some, as far as the task
        bears it."""
        if self._spare(pool) == 0:
            return
        kinds: tuple[parameter_states.Kind, ...] = ("grown", "partly grown", "partly grown")
        for kind in kinds:
            grown = parameter_states.draw(kind)
            self.state(pool, grown)
            held = self._checked(pool, GROWN)
            if held is not None:
                pool.dropped.pop(GROWN, None)
                pool.checking.append((grown, held))
                return
            pool.forget_state(grown)

    def timing(
        self, pool: CasePool, us: float, bursts: int = MORE_BURSTS, candidates: int = 1
    ) -> None:
        """Draw timing sets for one pair of processes and a kernel of about `us` microseconds a
        call: for so many bursts where the case is small, and as many for each of several
        candidates. None where there are some."""
        if pool.timing:
            return
        one_by_one = self._family.ONE_BY_ONE
        each = pool.input_bytes + pool.slot_bytes + pool.turned_bytes + 2 * buffers.ALIGN
        length_us, most = (
            (HOST_BURST_US, MOST_HOST_CALLS) if one_by_one else (DEVICE_BURST_US, MAX_CALLS)
        )
        alone, plenty = ALONE, bursts > MORE_BURSTS
        if pool.shared:
            length_us, most, alone = (
                QUEUED_BURST_US[plenty],
                MOST_QUEUED_CALLS[plenty],
                QUEUED_ALONE[plenty],
            )
            pool.nothings = QUEUED_NOTHINGS[plenty]
        pool.short = us < SHORT_US
        pool.one_by_one, pool.warm = (
            one_by_one,
            next(n for n, limit in WARM_CALLS if us < limit) if one_by_one else 0,
        )
        affordable = max(4, min(POOL_BYTES, self.room() // 8) // (each * candidates))
        pool.calls = max(1, min(most, round(length_us / max(us, 1.0)), affordable // 4))
        spent_us = (pool.calls + pool.warm) * max(us, 1.0)
        few = (
            min(bursts, FEW_BYTES // (pool.calls * each), round(1e6 * FEW_SECONDS / spent_us))
            if one_by_one
            else 0
        )
        if pool.input_bytes > DEAR_BYTES:  # 7 ms and more to draw and answer one
            few = min(few, BURSTS if plenty else DEAR_BURSTS)
        least = min(BURSTS, max(few, DEAR_BURSTS)) if pool.input_bytes > DEAR_BYTES else BURSTS
        least = QUEUED_BURSTS[plenty] if pool.shared else least
        self.state(pool, 0)
        count = max(1, min(max(least, few), affordable // pool.calls))
        pool.halves = self._halves(pool, count, candidates)
        pool.timing = [group for half in pool.halves for group in half.groups]
        if pool.calls > 1 and not one_by_one:
            count = min(alone, affordable // 4) * candidates
            pool.alone = self._group(pool, ["dense"] * count).alone()
        pool.rotating_bytes = pool.timing_bytes
        if len(pool.halves) > 1:
            self.state(pool, 0)

    def _halves(self, pool: CasePool, bursts: int, candidates: int) -> list[Half]:
        """So many bursts for each of the candidates; where there are parameters, half of them after
        these have changed: who keeps what depends on them alone while it is timed shows there. The
        reference is left in the last state."""
        changes = bool(pool.describe["state"]) and bursts > 1
        dense = next(held for state, held in pool.checking if state == 0 and held.family == "dense")
        groups = self._groups(pool, (bursts - bursts // 2 if changes else bursts) * candidates)
        halves = [Half(0, groups, dense, input_sets.usual_rms(groups))]
        if changes:
            changed = parameter_states.draw("changed")
            self.state(pool, changed)
            groups = self._groups(pool, bursts // 2 * candidates)
            usual = input_sets.usual_rms(groups)
            warm = dense
            if pool.warm or not pool.one_by_one:
                warm = input_sets.warm(self._group(pool, ["dense"]), pool.allowances, usual)
            halves.append(Half(changed, groups, warm, usual))
        return halves

    def _groups(self, pool: CasePool, count: int) -> list[Group]:
        families = timed_families(list(pool.of_family), count * pool.calls)
        return [
            self._group(pool, families[first : first + pool.calls])
            for first in range(0, len(families), pool.calls)
        ]

    def sample(self, pool: CasePool) -> InputSet:
        """One more set of plain inputs."""
        return self._draw(pool, "dense")

    def shown(self, pool: CasePool, family: str) -> InputSet:
        """A set like a checking one whose values may be told: it judges nobody, and leaves the
        limits of those that do as they are. Raises WorkerFailed."""
        self.state(pool, 0)
        held = self._draw(pool, family)
        held.allowed = _allowances(pool, held)
        return held

    def _checked(
        self, pool: CasePool, family: str, again: Sequence[torch.Tensor] = ()
    ) -> InputSet | None:
        """A checking set, or None (and a note) where the reference or the framework itself does not
        bear the family. again: for the first of all, what is expected for another plain draw."""
        try:
            held = self._draw(pool, family)
        except WorkerFailed as error:
            if family == "dense":
                raise
            pool.dropped[family] = f"the reference raises there: {str(error).splitlines()[0][:200]}"
            return None
        if not pool.steady:
            pool.steady = [
                tolerance.are_steady(*both) for both in zip(held.expected, again, strict=True)
            ]
            pool.single = [
                tolerance.single_growth(*both) if pool.alone_along(number) else math.inf
                for number, both in enumerate(zip(held.expected, again, strict=True))
            ]
        held.allowed = _allowances(pool, held)
        reason = _unbearable(pool, held)
        if reason and family != "dense":
            pool.dropped[family] = reason
            return None
        if family not in pool.families:
            pool.families.append(family)
        if family == "dense":
            pool.allowances = [
                tolerance.envelope(a, b)
                for a, b in zip(pool.allowances or held.allowed, held.allowed, strict=True)
            ]
        return held

    def _draw(self, pool: CasePool, family: str) -> InputSet:
        """One set with precise expectations."""
        # the unused pages of a plan, and what is left of one
        between = buffers.ALIGN * (1 + 2 * len(pool.outputs["leaves"]))
        slack = _slack(pool, family)
        rooms = self._rooms(
            pool.input_bytes,
            between + pool.precise_bytes,
            pool.slot_bytes,
            *([pool.slot_bytes] * len(rounding.SIDES) if slack else []),
        )
        inputs, expected, framework, *turned = rooms
        seed = secrets.randbits(48)
        asked = {"case": pool.name, "seed": seed, "family": family, "slack": slack}
        data = self._worker.data(self._filled("make_set", rooms, TASK_SECONDS, asked))
        wanted = self._placed(expected.tensors(data["expected"]))
        own = self._placed(framework.tensors(pool.outputs))
        return InputSet(
            inputs.file(),
            0,
            data["layout"],
            wanted,
            family,
            data["finite"],
            own,
            turned=[self._placed(room.tensors(pool.outputs)) for room in turned],
            memory=data["memory"],
        )

    def _group(self, pool: CasePool, families: list[str]) -> Group:
        """Sets of these families for one timed burst, with expectations in the outputs' own
        dtypes."""
        calls, stride = len(families), max(pool.input_bytes, buffers.ALIGN)
        chosen = (
            list(range(len(pool.outputs["leaves"])))
            if pool.bitwise
            else buffers.integers(pool.outputs)
        )
        outputs = calls * pool.slot_bytes
        slacks = [_slack(pool, family) for family in families]
        others = [outputs] * (bool(chosen) + (len(rounding.SIDES) if slacks[0] else 0))
        inputs, *results = self._rooms(calls * stride, outputs, *others)
        asked = {
            "case": pool.name, "seeds": [secrets.randbits(48) for _ in range(calls)],
            "families": families, "slacks": slacks, "stride": stride, "slot_bytes": pool.slot_bytes,
            "framework": chosen,
        }  # fmt: skip
        # they may be long: a file has room for as many, and for where the outputs lie
        own = len(json.dumps(pool.describe["inputs"])) + buffers.PLAIN_BYTES
        most = own + _PLACES_BYTES * (1 + len(pool.outputs["leaves"]))
        told = buffers.create("layouts", calls * most)
        try:
            self._filled("make_group", [inputs, *results], calls * TASK_SECONDS, asked, told)
            made = answers.parsed(buffers.read_all(told).rstrip(b"\0"))
        finally:
            os.close(told)
        held = inputs.file()
        wanted, *rest = (
            self._placed(each.stacked(pool.outputs, calls, pool.slot_bytes)) for each in results
        )
        framework = [rest[0][number] if number in chosen else None for number in range(len(wanted))]
        turned = rest[bool(chosen) :]
        one = made[0]["layout"]  # most often of all: then the same object, so that it is sent once
        text = json.dumps(one)  # compared as text, since 1 == True and 0.0 == -0.0
        sets = [
            InputSet(
                held,
                number * stride,
                one if json.dumps(each["layout"]) == text else each["layout"],
                [output[number] for output in wanted],
                family,
                turned=[[output[number] for output in side] for side in turned],
                memory=each["memory"],
            )
            for number, (each, family) in enumerate(zip(made, families, strict=True))
        ]
        return Group(sets, wanted, framework, turned)

    def _rooms(self, *sizes: int) -> list[set_memory.Room]:
        """Memory for inputs, and for what is expected."""
        return [
            set_memory.OnDevice(size) if self._shared else set_memory.OnHost(size) for size in sizes
        ]

    def _filled(
        self,
        op: str,
        some: Sequence[set_memory.Room],
        seconds: float,
        asked: dict[str, Any],
        *others: int,
    ) -> frames.Reply:
        """What the worker says that has filled them. others: descriptors besides."""
        if self._shared:
            device_link.give_back()
        fds = [room.fd() for room in some]
        try:
            return self._worker.ask(
                op,
                [*fds, *others],
                seconds=seconds,
                sizes=[room.nbytes for room in some if self._shared],
                **asked,
            )
        finally:
            for room, fd in zip(some, fds, strict=True):
                room.filled(fd)

    def _spare(self, pool: CasePool) -> int | None:
        """How many families there is room for beside what has to be, one set after the parameters
        changed and a candidate's own memory among it; None for all. What one leaves the others
        find."""
        if not self._shared:
            return None
        room, one = self.room(), pool.set_bytes
        needed = working_bytes(pool) + (one if pool.describe["state"] else 0)
        return max(0, min(max(1, int(SETS_SHARE * room) // one - 1), (room - needed) // one))

    def room(self) -> int:
        """Bytes that there are for sets, where these lie."""
        return device_link.free_bytes() if self._shared else host_memory.available()

    def _placed(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Expectations stay where comparing is fastest: in the judge's own memory on the device."""
        there = self._family.OWN_MEMORY
        return [t.to(self._family.TORCH_DEVICE) for t in tensors] if there else tensors


def of_others(pool: CasePool, held: InputSet) -> list[tolerance.Allowance]:
    """What other draws of a family of timed sets may be off by, from one of them and, of uneven
    ones, from the plain ones."""
    both = zip(pool.allowances, held.allowed, held.expected, strict=True)
    if held.family == NAMED:
        return [
            tolerance.widen(own, 1.0 if wanted.numel() >= MANY_NAMED else UNEVEN_FACTOR)
            for _, own, wanted in both
        ]
    factor = MOVED_FACTOR if held.family == MOVED else UNEVEN_FACTOR
    return [tolerance.widen(tolerance.envelope(plain, own), factor) for plain, own, _ in both]


def timed_families(borne: Sequence[str], count: int) -> list[str]:
    """Of so many timed sets: nobody knows which is what. Each family that is borne is among them,
    and the plain one, if one of the most frequent is left: who is wrong in one alone is found by
    each process (of 12 sets 1 in 30 draws had none of one)."""
    chance = secrets.SystemRandom()
    uneven = [family for family in borne if family != NAMED]
    share = (NAMED_UNEVEN_SHARE if NAMED in borne else UNEVEN_SHARE) if uneven else 0.0
    shares = {family: share / len(uneven) for family in uneven}
    if NAMED in borne:
        shares[NAMED] = NAMED_SHARE
    shares["dense"] = 1.0 - sum(shares.values())
    most = max(shares, key=lambda family: (shares[family], family == "dense"))
    found = chance.choices(list(shares), list(shares.values()), k=count)
    if most not in found and count > 2:  # 1 of 4,000 draws of twelve
        found[chance.randrange(count)] = most
    places = [place for place, family in enumerate(found) if family == most]
    missing = [family for family in shares if family not in found]
    chance.shuffle(missing)
    for place, family in zip(chance.sample(places, max(0, len(places) - 1)), missing, strict=False):
        found[place] = family
    return found


def _note_faint(pool: CasePool, plain: Sequence[InputSet], again: Sequence[torch.Tensor]) -> None:
    """Ask more of the elements that drown in plain draws, in each the same or others."""
    for number, allowed in enumerate(pool.allowances):
        own = [distance.real(held.framework[number]) for held in plain]
        if not own[0].is_floating_point() or allowed.rule == "equal":
            continue
        draws = [
            distance.real(expected)
            for expected in (*(held.expected[number] for held in plain), again[number])
        ]
        below = max(allowed.element, allowed.least / max(distance.rms(draws[0]), 1e-300))
        groups = small_values.find(draws, own, below)
        ratio = allowed.norm / allowed.framework_error if allowed.framework_error else 1.0
        ratio = max(small_values.FACTOR, ratio)
        by_value = decades.find(draws[: len(own)], own, below, ratio)
        pool.allowances[number] = replace(allowed, faint=groups, decades=by_value)
        for held in plain:
            held.allowed[number] = replace(held.allowed[number], faint=groups, decades=by_value)


def _families(pool: CasePool) -> list[str]:
    """The families to try besides the plain one; for large inputs the one that truncated work does
    not survive, and two at random."""
    found = [f for f in FAMILIES if f not in PLAIN and (f != NAMED or pool.names)]
    if operators.leaves_ties_open(pool.describe["operators"]):
        for family in ("zeros", "ties", "exact"):
            found.remove(family)
            pool.dropped[family] = "the reference may order equal values as it likes"
    if pool.input_bytes > LARGE_BYTES:
        always = ["edges", *UNEVEN, *([NAMED] if pool.names else [])]
        return [*always, secrets.choice([f for f in found if f not in always])]
    return found


def _allowances(pool: CasePool, held: InputSet) -> list[tolerance.Allowance]:
    """What each output may be off by on exactly these inputs."""
    rule: tolerance.Rule = "equal" if pool.exact else "integers" if _integral(held) else "rounding"
    return [
        tolerance.derive(
            wanted,
            own,
            terms,
            rule,
            _growth(terms, held.family),
            relief,
            steady=steady,
            pointwise=pool.pointwise,
            single=single,
            times=NAMED_TIMES
            if held.family == NAMED and wanted.numel() >= MANY_NAMED
            else math.inf,
        )
        for wanted, own, terms, steady, single, relief in zip(
            held.expected,
            held.framework,
            pool.reductions,
            pool.steady,
            pool.single,
            _reliefs(pool, held),
            strict=True,
        )
    ]


def _integral(held: InputSet) -> bool:
    """Whether sums and products have no rounding. Its family's name alone does not say so: a task
    may have inputs that no family changes."""
    return held.family == "exact" and are_exact(held.file.value(held.layout, held.base))


def _growth(terms: int, family: str) -> float:
    """What honest sums lose in a family, as a factor on their part of the oracle's floor. Few,
    equal or nearly equal values, or many beside a large one: rounding errors repeat instead of
    cancelling and grow with K, not its root. Scaled values saturate functions: of 1 - tanh(x)^2
    little is left, and all of its rounding (1 of 27 draws of an honest gate was refused). Uneven
    ones do so by far more: where two of the large terms nearly cancel before such a function, its
    rounding is theirs (1 in 200 draws of a plain LSTM step was refused; of 2,400 none now, which
    used up to a third of the limits). Where a named value lies near the sum that it is taken from,
    the roundings of both are large beside what is left. Shifted values: sums are off in proportion
    to the shift (one pass for mean and variance by its square: that shows)."""
    repeated = max(1.0, terms**0.5 / 2)
    growths = {
        "shifted": 1.5 * SHIFT, "negative": 4.0, "scaled": 4.0, "dense": 1.0, "special": 1.0,
        "moved": 4.0, "grown": 4.0,
        "uneven": max(64.0, repeated), "named": max(64.0, repeated),
    }  # fmt: skip
    return float(growths.get(family, repeated))


def _slack(pool: CasePool, family: str) -> float:
    """What an honest kernel may be off by before it rounds to whole numbers, relative to the value
    and to the root mean square of all: the oracle's floor in the precision of the reference."""
    terms = max(pool.reductions)
    base = tolerance.floor("float32", terms, _growth(terms, family))
    return base * pool.roundoff / tolerance.ROUNDOFF["float32"]


def _reliefs(pool: CasePool, held: InputSet) -> list[float]:
    """Factors on the whole floor for inputs that were scaled down: an error counts as large as it
    would be at the task's own scale."""
    if held.family != "small":
        return [1.0] * len(held.expected)
    plain = pool.checking[0][1].expected
    return [
        max(1.0, distance.rms(a) / max(distance.rms(b), 1e-300))
        for a, b in zip(plain, held.expected, strict=True)
    ]


def _same_kinds(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN, infinities and finite values in the same places."""
    import torch

    kinds = [
        torch.where(t.isnan(), 2.0, torch.where(t.isinf(), t.sign(), 0.0)).float()
        for t in (one, other)
    ]
    return bool(torch.equal(*kinds))


def _unbearable(pool: CasePool, held: InputSet) -> str:
    if held.family == "special":
        if held.finite:
            return "no input or no output of the task can show special values"
        same = all(
            _same_kinds(e, own)
            for e, own in zip(held.expected, held.framework, strict=True)
            if own.is_floating_point()
        )
        return (
            ""
            if same
            else (
                "the framework itself gives other special values than the reference in high "
                "precision"
            )
        )
    if not held.finite:
        return "the reference is not finite"
    import torch

    for own, leaf in zip(held.framework, pool.outputs["leaves"], strict=True):
        if leaf["dtype"] in tolerance.ROUNDOFF and not bool(torch.isfinite(own).all()):
            return "the framework itself overflows there"
    for allowed, leaf, terms in zip(
        held.allowed, pool.outputs["leaves"], pool.reductions, strict=True
    ):
        if leaf["dtype"] in tolerance.ROUNDOFF and allowed.framework_error > 64 * tolerance.floor(
            leaf["dtype"], terms
        ):
            return "the framework itself is inaccurate there"
    return ""
