"""Checks what timed calls leave in the parameters and buffers that the reference's forward updates.

Before the rounds of each half the judge reads what lies there and writes other values, which nobody
knows, so that no call can compute what later ones leave before anybody measures. What they left is
read from the memory of the stopped process, after a round that is drawn, after two turns that end
early (on a CPU) or two calls alone (on a device), and after the last call, so that it can neither
bring them up to date when it is asked nor do so for several turns at once. On a device that shares
its memory they are copied behind the outputs of the drawn round, before the clock stops. A tensor
that is not where it lay before the calls is taken from the process's own report: it was assigned
anew, it is not contiguous, or the judge cannot read its device memory. What is known only from
there makes no candidate faster, and neither does what lies in the memory of another tensor or in
pages of a file, what the reference updates alike for all inputs or, in a part that counts, hardly
beyond its tolerance, or where it makes more of roundings than errors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...wire import dtypes
from ...workers.value_order import sorted_axes
from .. import candidate_state
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..errors import Interfered, WorkerFailed
from ..exchange import device_copies, ready_memory
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet, LeftValue
from ..exchange.process_bill import calling_process
from ..processes.worker import Worker
from ..tasks.drawer import Drawer
from .slight_changes import is_slight
from .timed_outputs import WrongWhenTimed

if TYPE_CHECKING:
    import torch


# of each half: who merges updates in half of the turns, as a figure needs, meets none of two in a
# quarter of the halves
LOOKS_ALONE, CUT_TURNS = 2, 2
MOST_LOOKED_AT = 256 << 20  # bytes

UNREAD = (
    "the reference's forward updates parameters or buffers, and those of the candidate are new "
    "tensors after each call, not contiguous, in one memory, or in a file. The judge cannot tell "
    "while the process is stopped what was written, so no speed-up can be certified. Update them "
    "in place, with copy_ or an out argument, each in memory of its own"
)
FORESEEN = (
    "the reference's forward updates {names} alike for all inputs. A kernel may do that for many "
    "calls at once, so no speed-up can be certified for this task; whoever trusts the author can "
    "time it with the update left out of the reference"
)
SLIGHT = (
    "all timed calls of the reference together change {names}, or more than a quarter of what they "
    "change there, by hardly more than the tolerance of what they leave (or apart from one "
    "factor, which may be known). A kernel that leaves the update out may pass, so no speed-up can "
    "be certified for this task; whoever trusts the author can time it with the update left out of "
    "the reference"
)
UNSURE = (
    "the reference's forward makes of one rounding more than rounding errors in {names} (values "
    "that are not finite, or a decision that goes the other way), so what many calls leave proves "
    "little, and no speed-up can be certified for this task"
)


@dataclass
class _Left:
    """What the calls of one half left. state: the seed of the parameters that they began with.
    renewed: what the judge wrote before them, None if nothing. values: those after so many of the
    calls."""

    state: int
    renewed: dict[str, torch.Tensor] | None
    calls: list[InputSet]
    values: list[tuple[int, dict[str, torch.Tensor]]]


class TimedState:
    """The state of one candidate in one block."""

    def __init__(self, pool: CasePool, worker: Worker, drawer: Drawer) -> None:
        self._pool, self._worker, self._drawer = pool, worker, drawer
        initial = drawer.initial_state(pool)
        self._like = {name: initial[name] for name in pool.updated}
        self._places: dict[str, int] = {}
        self._fixed: set[str] = set()  # what a call left in its place
        self._seen: dict[str, torch.Tensor] = {}
        # after some calls, what lay still in its place
        self._between: list[tuple[int, dict[str, torch.Tensor]]] = []
        self._targets: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._renewed: dict[str, torch.Tensor] | None = None
        # for each half; drawn now, since no clock runs and no process stands still
        self._others = {
            half.state: drawer.updates.other_values(pool, half.state, initial)
            for half in pool.halves
            if (pool.one_by_one or pool.shared) and self._is_small
        }
        self._left: list[_Left] = []
        self._unsure: set[str] = set()
        self._slight: set[str] = set()
        self.open: set[str] = set()
        """What makes no candidate faster, see above; values that are not finite were not
        compared."""

    @property
    def doubt(self) -> str:
        """Why nothing is certified of the candidate, "" where something may be."""
        foreseen = self._pool.foreseen or set()
        reasons = (foreseen, FORESEEN), (self._unsure, UNSURE), (self._slight, SLIGHT)
        for names, text in reasons:
            if names:
                return text.format(names=", ".join(sorted(names)))
        return UNREAD if self.open else ""

    def begin(self, call: Callable[[], None]) -> None:
        """Note where the tensors lie, before the calls of a half. call: makes one call, twice."""
        call()  # the first one of a process may move what later ones keep in place
        before = self._find()
        call()
        self._places = self._find()
        fixed = {name for name, place in self._places.items() if before.get(name) == place}
        self._fixed = fixed - self._overlapping()
        if not self._pool.shared:
            self._fixed -= self._elsewhere_too()
        self._between, self._renewed = [], None

    def renew(self, state: int, calls: list[InputSet]) -> bool:
        """Write other values while the process is stopped, before the rounds of a half: what it has
        computed from those before is of no use then. Returns whether they were written: not where
        some of them do not lie still or can no longer be read, which makes no candidate faster.
        state, calls: see `end`, of the half so far."""
        if state not in self._others or self._fixed != set(self._like):
            return False
        present = self._read(self._places)
        if len(present) < len(self._like):
            return False
        others = self._others.pop(state)
        if self._pool.takes_other_values:
            others = {
                name: present[name]
                if same_bits(value, self._like[name])  # a counter, a mask
                else _partly(present[name], value)
                for name, value in others.items()
            }
        self._left.append(_Left(state, None, calls, [(len(calls), present)]))
        for name, value in others.items():
            if not candidate_state.write(self._worker, self._places[name], value):
                raise Interfered(f"{name} lies in memory that cannot be written")
        self._renewed = others
        return True

    def distrust(self) -> None:
        """Let nothing be certified: somebody may have worked where nobody looked."""
        self.open |= set(self._like)

    def looks_alone(self, rng: random.Random, calls: int) -> Sequence[int]:
        """Draw the calls alone on a device, of so many, after which to look as well: who updates
        state for several of them at once has most of them quick. None of large state."""
        count = min(LOOKS_ALONE, calls - 1) if self._is_small else 0
        return rng.sample(range(calls - 1), count) if count > 0 else ()

    def draw_cuts(self, rng: random.Random, rounds: int) -> dict[int, int]:
        """Draw the rounds whose turns end early, with their number of calls, and after which to
        look: who updates state for all calls of a turn at once has it right after whole turns. Two
        rounds at least stay whole, the first among them. None on a device, whose calls alone show
        it, nor of large state."""
        turn_calls = self._pool.warm_calls + self._pool.calls
        if not self._pool.one_by_one or turn_calls < 2 or not self._is_small:
            return {}
        chosen = rng.sample(range(1, rounds), max(0, min(CUT_TURNS, rounds - 2)))
        return {number: rng.randrange(1, turn_calls) for number in chosen}

    @property
    def _is_small(self) -> bool:
        """Whether the reference can keep a copy for each look."""
        return sum(value.nbytes for value in self._like.values()) <= MOST_LOOKED_AT

    def copies(self) -> device_copies.Copies:
        """Return the copies of the tensors to make behind the outputs of a burst on a device. They
        count once `look_between` is called after it."""
        self._targets = {}
        if not self._pool.shared:
            return []
        self._targets = candidate_state.copies(
            self._worker, {n: self._places[n] for n in self._fixed}, self._like
        )
        return device_copies.group_copies(list(self._targets.values()))

    def look_between(self, calls_made: int) -> None:
        """Read what lies still in its place after a burst, while the process is stopped.
        calls_made: in this half so far."""
        self._fixed -= self._elsewhere_too()
        if self._pool.shared:
            values = {
                name: candidate_state.as_like(target, self._like[name])
                for name, (target, _) in self._targets.items()
            }
        else:
            values = self._read(self._fixed)
        self._between.append((calls_made, values))

    def look(self) -> None:
        """Read the tensors after the last call, while the process is stopped."""
        self._fixed -= self._elsewhere_too()
        self._seen = self._read(self._places)

    def _overlapping(self) -> set[str]:
        """Return what shares memory with another one: a tensor that is never written could lie
        where one is that gets the same values."""
        ends = sorted(
            (place, place + self._like[name].nbytes, name) for name, place in self._places.items()
        )
        found, reached = set[str](), (0, "")
        for start, end, name in ends:
            if start < reached[0]:
                found |= {name, reached[1]}
            reached = max(reached, (end, name))
        return found

    def _elsewhere_too(self) -> set[str]:
        """Return what lies in memory that is mapped, or can be, at several addresses."""
        if self._pool.shared:
            return self._shared()
        process = calling_process(self._worker)
        return {
            name
            for name, place in self._places.items()
            if ready_memory.bytes_of_files(process, [(place, self._like[name].nbytes)])
        }

    def _shared(self) -> set[str]:
        """Return all that lies still if some of it is the same device memory at other addresses.
        The process is stopped."""
        fixed = {name: self._places[name] for name in self._fixed}
        memory = candidate_state.memory(self._worker, fixed, self._like)
        places = [
            device_copies.DevicePlace(number, fixed[name], there, None, 1, False)
            for number, (name, there) in enumerate(memory.items())
        ]
        # marked at the offset of one byte, once for each since they may differ in size
        shared = any(device_copies.share_memory(places) for _ in places)
        return set(fixed) if shared else set()

    def _find(self) -> dict[str, int]:
        return candidate_state.places(self._worker, self._pool.name, list(self._like))

    def _read(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        found = {
            name: candidate_state.read(self._worker, self._places[name], self._like[name])
            for name in names
        }
        return {name: value for name, value in found.items() if value is not None}

    def end(self, state: int, calls: list[InputSet]) -> None:
        """Keep what the calls of a half left, to be verified later."""
        values = candidate_state.ask(self._worker, self._pool.name, self._like)
        places = self._find()
        still = {name for name, place in self._places.items() if places.get(name) == place}
        values |= {name: value for name, value in self._seen.items() if name in still}
        looks = [
            (calls_made, {name: value for name, value in found.items() if name in still})
            for calls_made, found in self._between
        ]
        self._left.append(_Left(state, self._renewed, calls, [*looks, (len(calls), values)]))
        if self._renewed is not None and still != set(self._like):
            # it has moved, maybe before it was read and written where it is no more
            self.open |= set(self._like)
            self._left = [each for each in self._left if each.state != state]
        if self._pool.one_by_one or self._pool.shared:
            between = [set(found) for _, found in self._between]
            read = (still & self._fixed & set(self._seen)).intersection(*between or [set()])
            # steps may have been computed before the rounds where they begin as they ended there
            self.open |= set(self._like) - (read if self._renewed is not None else set())

    def verify(self) -> None:
        """Compare with the reference after the same calls. Raises WrongWhenTimed."""
        self.open |= self._drawer.updates.foreseen(self._pool, self._like)
        slights: list[set[str]] = []  # of each half
        for left in self._left:
            counts = [count for count, _ in left.values]
            try:
                each = self._drawer.updates.after_each(
                    self._pool, left.state, left.calls, counts, left.renewed
                )
            except WorkerFailed:
                if left.renewed is None:
                    raise
                self.distrust()  # the reference does not work with these values after all
                continue
            before = left.renewed or self._like
            for (_, values), expected in zip(left.values, each, strict=True):
                self._compare(values, expected, before)
            if left.renewed is not None:
                last = each[-1].items()
                slights.append({name for name, value in last if is_slight(before[name], value)})
        self._slight = set.intersection(*slights) if slights else set()
        self.open |= self._slight
        self._left.clear()

    def _compare(
        self,
        values: Mapping[str, torch.Tensor],
        expected: Mapping[str, LeftValue],
        before: Mapping[str, torch.Tensor],
    ) -> None:
        """Compare what some calls left. before: what they began with. Raises WrongWhenTimed."""
        hint = (
            ""
            if before is self._like
            else ". Its values were changed between calls, while the process stood still: read "
            "them in each call, and keep no copy"
        )
        for name, reference in expected.items():
            if name not in values:
                continue
            value, framework = values[name], reference.framework
            # an overflow in one call stays, and another right order of operations has none
            lost = ~(dtypes.is_finite(framework) & dtypes.is_finite(reference.expected))
            lost &= dtypes.is_finite(before[name])  # others, of a mask, say, are compared
            if reference.unsure or bool(lost.any()):
                self.open.add(name)
                self._unsure.add(name)
            finding = oracle.compare(
                _zeroed(value, lost),
                _zeroed(reference.expected, lost),
                reference.allowance,
                _zeroed(framework, lost),
            )
            if finding.signal is not None:
                unchanged = same_bits(value, before[name])
                here = "it is left unchanged" if unchanged else finding.detail
                text = f"the reference updates {name} in each call, but here {here}{hint}"
                raise WrongWhenTimed(
                    self._pool.name,
                    replace(finding, signal="wrong.state", detail=text),
                    "the state after the timed calls is wrong",
                )


def _zeroed(tensor: torch.Tensor, lost: torch.Tensor) -> torch.Tensor:
    """Return a tensor with zeros where values are lost."""
    if not bool(lost.any()):
        return tensor
    kept: torch.Tensor = dtypes.comparable(tensor).masked_fill(lost, 0).to(tensor.dtype)
    return kept


def _partly(present: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the other values, but for a sixteenth in a row that stays as it is in most cases, from
    the first element on in some of them: who looks at a few elements only may miss the change. All
    of integers and sorted values are others, since they may mean something together."""
    import torch

    count, chance = present.numel(), random.SystemRandom()
    numbers = present.is_floating_point() or present.is_complex()
    if count < 2 or not numbers or sorted_axes(present) or chance.random() < 0.25:
        return other
    chosen, length = torch.ones(count, dtype=torch.bool), -(-count // 16)
    start = 0 if chance.random() < 0.5 else chance.randrange(count - length + 1)
    chosen[start : start + length] = False
    mixed, source = (
        each.contiguous().view(-1).view(torch.uint8).view(count, -1) for each in (present, other)
    )
    mixed = mixed.clone()
    mixed[chosen] = source[chosen]
    return mixed.view(-1).view(present.dtype).view(present.shape)
