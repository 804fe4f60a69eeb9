"""Outputs of earlier bursts on a device, as far as that can be told without one: memory that a
worker shows is ordinary memory here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.exchange.case_pool import CasePool
from harness.judge.exchange.device_copies import DevicePlace, copy
from harness.judge.exchange.device_link import DeviceLink
from harness.judge.exchange.device_reservoir import MOST_EACH_BYTES, DeviceReservoir
from harness.judge.exchange.device_slots import DeviceSlots
from harness.judge.exchange.output_reservoir import MOST_HELD
from harness.wire.device_memory import STEP
from harness.wire.layouts import dense_layout, plan_layout
from harness.workers.device_commands import ShownHost

# one in other strides, an empty one, a scalar
OUTPUTS = dense_layout(
    plan_layout([torch.zeros(6, 4).t(), torch.zeros(0, 3), torch.zeros((), dtype=torch.int64)])
)
CALLS, BURSTS, EACH = 3, 12, 256  # EACH: bytes of the worker's memory for the outputs of a call
Place = Callable[[int, Sequence[int]], int]  # number of a call, places that are held -> its place


class Told:
    """A worker that makes calls: what it is told goes to a host like any worker's."""

    def __init__(self) -> None:
        self.host, self.orders = ShownHost(), 0

    def ask(self, op: str, *, seconds: float, **arguments: Any) -> None:
        assert op == "hold"
        self.orders += 1
        self.host.on_hold([], **arguments)

    @property
    def holds(self) -> list[int]:
        """Places of outputs."""
        return [place for (place,) in self.host._retained]


def given(same: list[int]) -> Any:
    """An input set. same: the outputs that the reference returns in memory it uses again."""
    return SimpleNamespace(memory={"same": same})


def held_after(place: Place, bursts: int = BURSTS, *, looks: bool = True) -> tuple[bool, Told]:
    """Whether all was kept of outputs that lie where `place` says, and the worker."""
    pool = CasePool("default", {"outputs": OUTPUTS, "held_bytes": OUTPUTS["bytes"]})
    slots, link, worker = object.__new__(DeviceSlots), object.__new__(DeviceLink), Told()
    slots._pool, slots._leaves, slots._stride = pool, OUTPUTS["leaves"], pool.slot_bytes
    slots._memory = torch.zeros(CALLS * pool.slot_bytes, dtype=torch.uint8)
    memory = torch.zeros(STEP, dtype=torch.uint8)
    link._allocations, link._starts = {STEP: (1, STEP)}, {1: STEP}
    link._mapped = {(STEP, STEP): memory}
    held = DeviceReservoir(pool, looks=looks)
    for burst in range(bursts):
        held.announce(worker, 1.0)  # type: ignore[arg-type]
        said, worker.host._outputs = [], []
        for call in range(burst * CALLS, (burst + 1) * CALLS):
            number = place(call, worker.holds)
            start = number * EACH
            memory[start : start + 96].view(torch.float32)[:] = torch.arange(24.0) + call
            memory[start + 96 : start + 104].view(torch.int64)[:] = call
            at = STEP + start
            said += [[at, [1, 4] if call % 2 else None], [0, None], [at + 96, None]]
            worker.host._outputs.append([number])
        slots._places = []
        copy(slots._plan_copies(link, said, CALLS))
        slots.reorder()
        held.draw(slots, slots._places, CALLS)
        held.change(slots._places, [given([])] * CALLS)
    held.compare_all()
    return held.intact, worker


def test_fresh_outputs_are_kept_in_all_strides() -> None:
    kept, worker = held_after(lambda call, _: call)
    assert kept
    assert len(worker.holds) == MOST_HELD
    assert worker.orders >= MOST_HELD  # the first ones together, then each turn of the next


@pytest.mark.parametrize("ring", [1, CALLS, CALLS + 1, 2 * CALLS])
def test_a_ring_longer_than_a_burst_is_seen(ring: int) -> None:
    assert not held_after(lambda call, _: call % ring)[0]


def test_a_ring_of_what_nobody_holds_is_kept() -> None:
    def place(call: int, held: Sequence[int]) -> int:
        free = [number for number in range(CALLS + MOST_HELD) if number not in held]
        return free[call % CALLS]

    assert held_after(place)[0]


def test_a_baseline_holds_as_many_and_nobody_looks() -> None:
    kept, worker = held_after(lambda call, _: call % CALLS, looks=False)
    assert kept
    assert len(worker.holds) == MOST_HELD


def test_nothing_is_held_where_one_output_is_very_large() -> None:
    pool = CasePool("default", {"outputs": OUTPUTS, "held_bytes": MOST_EACH_BYTES + 1})
    held, slots, worker = DeviceReservoir(pool, looks=True), object.__new__(DeviceSlots), Told()
    held.draw(slots, [], CALLS)
    held.announce(worker, 1.0)  # type: ignore[arg-type]
    held.compare_all()
    assert held.intact
    assert not worker.orders


def test_all_is_changed_but_memory_that_the_reference_uses_again() -> None:
    pool = CasePool("default", {"outputs": OUTPUTS, "held_bytes": MOST_EACH_BYTES + 1})
    memory = torch.zeros(2, CALLS, 2048, dtype=torch.uint8)
    places = [
        DevicePlace(3 * call + number, STEP, memory[part, call], None, 4, is_bool=False)
        for call in range(CALLS)
        for part, number in enumerate((0, 2))
    ]
    DeviceReservoir(pool, looks=False).change(places, [given([2])] * CALLS)
    assert not memory.any()
    DeviceReservoir(pool, looks=True).change(places, [given([2])] * CALLS)
    assert memory[0].any(-1).sum() >= CALLS - 1  # one may have got the element it had
    assert not memory[1].any()


def test_a_worker_lets_go_of_all() -> None:
    host = ShownHost()
    host._outputs = [["a"], ["b"], ["c"]]
    host.on_hold([], place=0, calls=[0, 2])
    host._outputs = [["d"]]
    host.on_hold([], place=1, calls=[0])
    assert host._retained == [["a"], ["d"]]
    host.on_hold([], place=0, calls=[])
    assert host._retained == []
