"""What of a device's shared memory can be told without a device: layouts over bytes, and what a
worker says of its memory."""

from __future__ import annotations

import pytest
import torch

from harness.judge.errors import Interfered
from harness.judge.exchange.case_pool import CasePool
from harness.judge.exchange.device_link import MOST_ALLOCATIONS, DeviceLink
from harness.judge.exchange.device_slots import DeviceSlots
from harness.judge.exchange.input_sets import Group, InputFile, InputSet
from harness.wire import buffers
from harness.wire.device_memory import STEP
from harness.wire.layouts import Layout, dense_layout, plan_layout
from harness.wire.nesting import tensors_of


def test_values_come_back_from_bytes() -> None:
    value = [
        torch.randn(5, 7),
        {"half": torch.randn(3, 4).to(torch.bfloat16).t(), "mask": torch.rand(9) > 0.5},
        torch.randn(2, 1).expand(2, 6),
        torch.randn(4, dtype=torch.complex64),
        torch.empty(0, 3),
        "word",
        3,
    ]
    layout = plan_layout(value)
    there = torch.full((int(layout["bytes"]) + 4096,), 0x7F, dtype=torch.uint8)
    buffers.put(there, layout, value, 4096)
    back = buffers.build(layout, there, 4096)
    assert back[5:] == ["word", 3]
    for one, other in zip(tensors_of(value), tensors_of(back), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert torch.equal(one, other)


def test_calls_alone_are_those_of_a_group() -> None:
    expected, numbers = torch.arange(6.0).reshape(3, 2), torch.arange(3).reshape(3, 1)
    file = InputFile(on_device=torch.zeros(4096 * 3, dtype=torch.uint8))
    sets = [
        InputSet(
            file, 4096 * n, {"bytes": 4096, "leaves": [], "tree": []}, [expected[n], numbers[n]]
        )
        for n in range(3)
    ]
    alone = Group(sets, [expected, numbers], [None, numbers]).split()
    assert [group.sets for group in alone] == [[held] for held in sets]
    assert torch.equal(alone[2].expected[0], expected[2:])
    assert alone[1].framework[0] is None


def linked() -> DeviceLink:
    """A link whose worker has shown two allocations, one behind the other."""
    found = object.__new__(DeviceLink)
    found.closed = False
    first = 4 * STEP
    found._allocations = {first: (1, STEP), first + STEP: (2, 2 * STEP)}
    found._starts = {4: first, 5: first + STEP, 6: first + STEP}
    whole = torch.arange(3 * STEP, dtype=torch.uint8)
    found._mapped = {(first, first + STEP): whole, (first, first): whole[:STEP]}
    return found


def test_an_output_lies_in_memory_that_was_shown() -> None:
    link = linked()
    assert link.bytes_at(4 * STEP + 100, STEP).tolist()[:2] == [100, 101]
    for address, nbytes in ((STEP, 8), (6 * STEP, STEP + 1), (7 * STEP, 1), (4 * STEP, 4 * STEP)):
        with pytest.raises(Interfered, match="has not shared"):
            link.bytes_at(address, nbytes)


@pytest.mark.parametrize(
    ("address", "nbytes"), [(4 * STEP + 1, STEP), (STEP, 0), (STEP, STEP + 512), (STEP, 1 << 50)]
)
def test_nonsense_about_memory_is_the_workers(address: int, nbytes: int) -> None:
    with pytest.raises(Interfered, match="bytes of device memory"):
        linked()._remember(address, nbytes, -1)


def test_memory_is_not_shown_without_end() -> None:
    link = linked()
    link._allocations = dict.fromkeys(range(MOST_ALLOCATIONS), (0, STEP))
    with pytest.raises(Interfered, match="bytes of device memory"):
        link._remember(STEP, STEP, -1)


OUTPUTS = dense_layout(plan_layout([torch.zeros(4, 4)]))
TURNED = dense_layout(plan_layout([torch.zeros(4, 4).t()]))
REPEATED = dense_layout(plan_layout([torch.zeros(4).expand(4, 4)]))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "all of its outputs"),
        ([], "all of its outputs"),
        ([[STEP, None], [STEP, None]], "all of its outputs"),
        ([["here", None]], "where an output lies"),
        ([[-1, None]], "where an output lies"),
        ([[STEP]], "where an output lies"),
        ([[STEP, [4, -1]]], "strides"),
        ([[STEP, [4, 1 << 50]]], "strides"),
        ([[STEP, [1]]], "not the reference's"),
        ([[STEP, None]], "has not shared"),
        # bringing them into order would be the judge's work
        ([[4 * STEP, [1, 4]]], "not the reference's"),
        ([[4 * STEP, [0, 1]]], "not the reference's"),
        ([[4 * STEP + 2, None]], "its dtype"),
    ],
)
def test_what_a_worker_says_of_its_outputs_is_looked_at(said: object, why: str) -> None:
    with pytest.raises(Interfered, match=why):
        slots_for(OUTPUTS)._plan_copies(linked(), said, 1)


def test_an_output_with_repeated_elements_is_not_taken_as_it_is() -> None:
    with pytest.raises(Interfered, match="gaps or overlapping"):
        slots_for(REPEATED)._plan_copies(linked(), [[4 * STEP, [0, 1]]], 1)


def slots_for(outputs: Layout) -> DeviceSlots:
    slots, pool = object.__new__(DeviceSlots), CasePool("default", {"outputs": outputs})
    slots._pool, slots._leaves, slots._stride = pool, outputs["leaves"], pool.slot_bytes
    slots._memory = torch.zeros(pool.slot_bytes, dtype=torch.uint8)
    return slots


def test_outputs_with_the_references_strides_are_brought_into_order() -> None:
    slots, link = slots_for(TURNED), linked()
    there = link.bytes_at(4 * STEP, 64)
    # the memory of a matrix that is its own transpose's
    there.copy_(torch.arange(16.0).view(torch.uint8))
    for places, sources in slots._plan_copies(link, [[4 * STEP, [1, 4]]], 1):
        for place, source in zip(places, sources, strict=True):
            place.copy_(source)
    slots.reorder()
    assert torch.equal(slots.tensors(TURNED, 0)[0], torch.arange(16.0).view(4, 4).t())
