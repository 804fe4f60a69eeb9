"""Whether outputs are the same memory at several addresses, with ordinary memory in place of a
device's."""

from __future__ import annotations

import torch

from harness.judge.exchange.device_copies import DevicePlace, change, share_memory
from harness.wire.device_memory import STEP

START = 8 * STEP


def place(
    number: int, address: int, there: torch.Tensor, item: int = 4, *, is_bool: bool = False
) -> DevicePlace:
    return DevicePlace(number, address, there, None, item, is_bool)


def test_outputs_in_memory_of_their_own_share_none_and_stay_as_they_are() -> None:
    memory = torch.randint(256, (4 * STEP,), dtype=torch.uint8)
    before = memory.clone()
    places = [place(n, START + n * STEP, memory[n * STEP : (n + 1) * STEP]) for n in range(4)]
    assert not any(share_memory(places) for _ in range(8))
    assert torch.equal(memory, before)


def test_one_memory_at_two_addresses_is_found() -> None:
    memory = torch.randint(256, (STEP,), dtype=torch.uint8)
    before = memory.clone()
    assert share_memory([place(n, START + n * STEP, memory) for n in range(2)])
    assert torch.equal(memory, before)


def test_one_tensor_that_is_returned_twice_is_left_to_other_checks() -> None:
    memory = torch.zeros(4096, dtype=torch.uint8)
    assert not share_memory([place(n, START, memory) for n in range(2)])
    assert not share_memory([])


def test_outputs_are_changed_wholly_or_in_one_element() -> None:
    changed = set()
    for _ in range(40):
        memory = torch.zeros(3, 4096, dtype=torch.uint8)
        change([place(n, START + n * STEP, each) for n, each in enumerate(memory)])
        words = [int((each.view(torch.int32) != 0).sum()) for each in memory]
        assert min(words) <= 1 or min(words) > 900
        changed.add(sum(each <= 1 for each in words))
    assert changed == {0, 1}


def test_changed_masks_stay_masks() -> None:
    memory = torch.zeros(4096, dtype=torch.uint8)
    for _ in range(8):
        change([place(0, START, memory, 1, is_bool=True)])
        assert int(memory.max()) <= 1
    change([])
