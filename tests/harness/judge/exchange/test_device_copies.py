"""Whether outputs are the same memory at several addresses, with ordinary memory in place of a
device's."""

from __future__ import annotations

import torch

from harness.judge.exchange.device_copies import DevicePlace, share_memory
from harness.wire.device_memory import STEP

START = 8 * STEP


def test_outputs_in_memory_of_their_own_share_none_and_stay_as_they_are() -> None:
    memory = torch.randint(256, (4 * STEP,), dtype=torch.uint8)
    before = memory.clone()
    places = [
        DevicePlace(n, START + n * STEP, memory[n * STEP : (n + 1) * STEP], None) for n in range(4)
    ]
    assert not any(share_memory(places) for _ in range(8))
    assert torch.equal(memory, before)


def test_one_memory_at_two_addresses_is_found() -> None:
    memory = torch.randint(256, (STEP,), dtype=torch.uint8)
    before = memory.clone()
    assert share_memory([DevicePlace(n, START + n * STEP, memory, None) for n in range(2)])
    assert torch.equal(memory, before)


def test_one_tensor_that_is_returned_twice_is_left_to_other_checks() -> None:
    memory = torch.zeros(4096, dtype=torch.uint8)
    assert not share_memory([DevicePlace(n, START, memory, None) for n in range(2)])
    assert not share_memory([])
