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
