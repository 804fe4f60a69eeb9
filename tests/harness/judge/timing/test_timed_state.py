"""When the state that calls update is looked at."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.correctness import tolerance
from harness.judge.exchange.input_sets import LeftValue
from harness.judge.timing import timed_state
from harness.judge.timing.timed_state import CUT_TURNS, LOOKS_ALONE, MOST_LOOKED_AT, TimedState


def state(*, one_by_one: bool = True, warm: int = 2, calls: int = 1, size: int = 4) -> TimedState:
    pool: Any = SimpleNamespace(
        updated=["kept"],
        one_by_one=one_by_one,
        shared=False,
        halves=[],
        warm_calls=warm,
        calls=calls,
        name="only",
    )
    value = torch.empty(size, dtype=torch.uint8, device="meta")
    drawer: Any = SimpleNamespace(initial_state=lambda pool: {"kept": value})
    return TimedState(pool, SimpleNamespace(), drawer)  # type: ignore[arg-type]


def test_turns_end_early_in_rounds_and_after_calls_that_nobody_knows() -> None:
    draws = [state().draw_cuts(random.Random(seed), 8) for seed in range(64)]
    assert {len(cuts) for cuts in draws} == {CUT_TURNS}
    assert {number for cuts in draws for number in cuts} == set(range(1, 8))
    assert {calls for cuts in draws for calls in cuts.values()} == {1, 2}


@pytest.mark.parametrize(
    ("made", "rounds", "cuts"),
    [
        ({}, 1, 0),
        ({}, 2, 0),  # two stay whole
        ({}, 3, 1),
        ({"size": MOST_LOOKED_AT + 1}, 8, 0),
        ({"warm": 0}, 8, 0),  # a turn of one call has no earlier end
        ({"one_by_one": False}, 8, 0),
    ],
)
def test_no_turn_ends_early_where_there_is_none(
    made: dict[str, Any], rounds: int, cuts: int
) -> None:
    assert len(state(**made).draw_cuts(random.Random(1), rounds)) == cuts


@pytest.mark.parametrize(("calls", "looks"), [(0, 0), (1, 0), (2, 1), (8, LOOKS_ALONE)])
def test_calls_alone_are_looked_at_but_the_last(calls: int, looks: int) -> None:
    drawn = [state().looks_alone(random.Random(seed), calls) for seed in range(64)]
    assert {len(each) for each in drawn} == {looks}
    assert {number for each in drawn for number in each} == set(range(max(0, calls - 1)))


def test_large_state_is_not_looked_at_after_calls_alone() -> None:
    assert not state(size=MOST_LOOKED_AT + 1).looks_alone(random.Random(1), 8)


OTHER = -1 - torch.rand(64)


class Memory:
    """A process's tensor at one address, which moves if `moves`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, moves: bool = False) -> None:
        self.value = torch.rand(64)
        self.moves, self.address = moves, 4096
        for name in ("places", "read", "write"):
            monkeypatch.setattr(timed_state.candidate_state, name, getattr(self, name))
        monkeypatch.setattr(timed_state, "calling_process", lambda worker: 1)
        monkeypatch.setattr(timed_state.ready_memory, "bytes_of_files", lambda process, parts: 0)

    def places(self, worker: Any, key: str, names: list[str]) -> dict[str, int]:
        self.address += 4096 * self.moves
        return {"kept": self.address}

    def read(self, worker: Any, address: int, like: torch.Tensor) -> torch.Tensor | None:
        return self.value.clone() if address == self.address else None

    def write(self, worker: Any, address: int, value: torch.Tensor) -> bool:
        self.value = value.clone()
        return True


def renewable(memory: Memory, *, takes: bool = True) -> TimedState:
    pool: Any = SimpleNamespace(
        updated=["kept"],
        one_by_one=True,
        shared=False,
        halves=[SimpleNamespace(state=0)],
        takes_other_values=takes,
        name="only",
    )
    others = SimpleNamespace(other_values=lambda *_: {"kept": OTHER.clone()})
    drawer: Any = SimpleNamespace(
        initial_state=lambda pool: {"kept": memory.value.clone()}, updates=others
    )
    found = TimedState(pool, SimpleNamespace(), drawer)  # type: ignore[arg-type]
    found.begin(lambda: None)
    return found


def test_values_are_written_wholly_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    changed, starts = set(), set()
    for _ in range(64):
        memory = Memory(monkeypatch)
        before = memory.value.clone()
        assert renewable(memory).renew(0, [])
        new = memory.value != before
        assert torch.equal(memory.value[new], OTHER[new])
        changed.add(int(new.sum()))
        starts.add(bool(new[0]))
    assert changed == {60, 64}  # all but a sixteenth, or all
    assert starts == {True, False}


def test_values_that_belong_together_are_written_wholly(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(16):
        memory = Memory(monkeypatch)
        assert renewable(memory, takes=False).renew(0, [])
        assert torch.equal(memory.value, OTHER)


def test_nothing_is_written_where_state_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(monkeypatch, moves=True)
    before = memory.value.clone()
    assert not renewable(memory).renew(0, [])
    assert torch.equal(memory.value, before)


FLAGS = LeftValue(
    torch.ones(4, dtype=torch.bool),
    torch.ones(4, dtype=torch.bool),
    tolerance.Allowance(0.0, 0.0, 0.0, 0.0, 0.0),
)


@pytest.mark.parametrize(
    ("change", "rule", "is_slight"),
    [
        (0.0, "rounding", True),
        (3e-3, "rounding", True),
        (0.1, "rounding", False),
        (0.0, "equal", False),
    ],
)
def test_an_update_within_a_few_tolerances_proves_nothing(
    change: float, rule: Any, is_slight: bool
) -> None:
    before, turned = torch.ones(64), torch.tensor([1.0, -1.0]).repeat(32)
    assert not timed_state.is_slight(torch.ones(4, dtype=torch.bool), FLAGS)
    limits = tolerance.Allowance(1e-3, 1e-3, 1e-3, 0.0, 0.0, rule)
    value = before + change * turned
    left = LeftValue(value.double(), value, limits)
    assert timed_state.is_slight(before, left) is is_slight


def left_by(before: torch.Tensor, expected: torch.Tensor) -> LeftValue:
    value = expected.to(before.dtype)
    return LeftValue(expected, value, tolerance.derive_carried(expected, value, expected, 256)[0])


def test_slow_rows_beside_a_lively_one_are_slight() -> None:
    torch.manual_seed(1)
    before = torch.randn(65, 64)
    expected = before.double() + 3e-6 * torch.randn(65, 64, dtype=torch.float64)
    expected[0] = torch.randn(64)
    left = left_by(before, expected)
    assert not timed_state.oracle.is_right(before, expected, tolerance.widen(left.allowance, 4.0))
    assert timed_state.little_changed(before, left) == pytest.approx(64 / 65, abs=0.01)
    assert timed_state.is_slight(before, left)


@pytest.mark.parametrize("decays", [(1, 1), (64, 1), (1, 48)])  # whole, by rows, by columns
@pytest.mark.parametrize(
    ("share", "dtype"),
    [(1e-6, torch.float32), (1e-2, torch.float32), (1e-3, torch.bfloat16), (1e-6, torch.complex64)],
)
def test_what_fades_by_a_factor_alone_is_slight(
    share: float, dtype: torch.dtype, decays: tuple[int, int]
) -> None:
    torch.manual_seed(1)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    before = torch.randn(64, 48, dtype=wide).to(dtype)
    factors = 0.3 + 0.7 * torch.rand(decays, dtype=torch.float64)
    expected = factors * before.to(wide) + share * torch.randn(64, 48, dtype=wide)
    assert timed_state.is_slight(before, left_by(before, expected)) is (share < 1e-2)


def test_one_number_fades_in_any_case() -> None:
    before = torch.tensor([2.0])
    assert not timed_state.is_slight(before, left_by(before, torch.tensor([1.5]).double()))


@pytest.mark.parametrize("part", [0.2, 0.3])
def test_a_quarter_may_change_little(part: float) -> None:
    torch.manual_seed(1)
    before, slow = torch.randn(100, 64), int(100 * part)
    expected = torch.randn(100, 64).double()
    expected[:slow] = before[:slow].double() * (1 + 1e-6)
    assert timed_state.is_slight(before, left_by(before, expected)) is (part > 0.25)


@pytest.mark.parametrize(
    ("dtype", "lines"),
    [
        (torch.float32, 1),
        (torch.bfloat16, 1),
        (torch.complex64, 1),
        (torch.float8_e4m3fn, 64),
        (torch.float8_e5m2, 64),
    ],
)
def test_lines_that_are_not_written_do_not_count(dtype: torch.dtype, lines: int) -> None:
    torch.manual_seed(1)
    numbers = torch.complex64 if dtype.is_complex else torch.float32
    wide = torch.complex128 if dtype.is_complex else torch.float64
    before = torch.randn(128, 256, dtype=numbers).to(dtype)
    expected = before.to(wide)
    expected[7 : 7 + lines] = torch.randn(lines, 256, dtype=wide)
    assert timed_state.little_changed(before, left_by(before, expected)) < 0.2
    assert not timed_state.is_slight(before, left_by(before, expected))


@pytest.mark.parametrize("size", [1.0, 10.0])  # of the line
def test_a_line_that_hardly_changes_is_slight_beside_a_lively_value(size: float) -> None:
    torch.manual_seed(1)
    before = torch.randn(128, 256)
    before[7] *= size
    expected = before.double()
    expected[7] *= 1 + 1e-5  # more than the tolerance of the whole, less than that of a row
    expected[8, 0] += 3.0
    assert timed_state.is_slight(before, left_by(before, expected))


@pytest.mark.parametrize(
    ("momentum", "dtype"),
    [(0.1, torch.float32), (0.01, torch.float32), (0.001, torch.float32), (0.1, torch.bfloat16)],
)
def test_running_averages_are_not_slight(momentum: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    before = (1 + torch.randn(256) / 4).abs().to(dtype)
    expected, rounded = before.double(), before.clone()
    for _ in range(50):
        variance = torch.randn(256, 256).to(dtype).var(dim=0)
        expected.lerp_(variance.double(), momentum)
        rounded.lerp_(variance, momentum)
    allowance, _ = tolerance.derive_carried(expected, rounded, expected, 256)
    left = LeftValue(expected, rounded, allowance)
    assert timed_state.little_changed(before, left) < 0.2
    assert not timed_state.is_slight(before, left)


def test_what_is_not_finite_or_does_not_change_is_no_change() -> None:
    before = torch.tensor([torch.inf, torch.nan, 1.0, 2.0])
    left = left_by(before, before.double())
    assert timed_state.little_changed(before, left) == 0.0
    expected = before.double()
    expected[3] = 3.0
    assert timed_state.little_changed(before, left_by(before, expected)) == 0.0


@pytest.mark.parametrize(
    ("changes", "is_open"), [([], False), ([1e-3, 1e-3], True), ([1e-3, 0.1], False)]
)
def test_updates_count_that_are_slight_in_all_halves(changes: list[float], is_open: bool) -> None:
    """Of what lay there before the rounds, not of the values as constructed."""
    limits = tolerance.Allowance(1e-3, 1e-3, 1e-3, 0.0, 0.0)
    kept, turned = torch.ones(64), torch.tensor([1.0, -1.0]).repeat(32)  # not a factor alone
    pool: Any = SimpleNamespace(
        updated=["kept"], one_by_one=True, shared=False, halves=[], name="only", foreseen=set()
    )

    def after_each(
        _pool: Any, _state: int, calls: list[float], counts: list[int], _renewed: Any
    ) -> list[dict[str, LeftValue]]:
        value = 3 * (kept + calls[0] * turned)
        return [{"kept": LeftValue(value.double(), value, limits)} for _ in counts]

    updates = SimpleNamespace(foreseen=lambda *_: set(), after_each=after_each)
    drawer: Any = SimpleNamespace(initial_state=lambda _: {"kept": kept}, updates=updates)
    looked = TimedState(pool, SimpleNamespace(), drawer)  # type: ignore[arg-type]
    for number, change in enumerate(changes):
        left: Any = {"kept": 3 * (kept + change * turned)}
        halves: Any = looked._left
        halves.append(timed_state._Left(number, {"kept": 3 * kept}, [change], [(1, left)]))
        halves.append(timed_state._Left(number, None, [change], [(1, left)]))  # before the rounds
    looked.verify()
    assert bool(looked.open) is is_open
    assert ("hardly more than the tolerance" in looked.doubt) is is_open
