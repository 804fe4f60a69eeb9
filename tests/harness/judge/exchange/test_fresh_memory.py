"""Memory taken from the driver during a watch."""

from __future__ import annotations

import threading
import time

from harness.judge.exchange.fresh_memory import NS_PER_MIB, USUAL_BYTES, FreshMemory


class Device:
    """A device of which each reading after the first shows the next of these states."""

    def __init__(self, *used_mib: int) -> None:
        self._states, self.seen = list(used_mib), threading.Event()

    def read(self) -> int:
        now = self._states[0] << 20
        if len(self._states) > 1:
            self._states.pop(0)
        else:
            self.seen.set()
        return now


def cost_ns(*used_mib: int) -> int:
    device = Device(*used_mib)
    watch = FreshMemory(device.read)
    watch.start()
    assert device.seen.wait(10)
    return watch.cost_ns()


def test_memory_given_back_and_taken_again_costs_its_clearing():
    assert cost_ns(900, 836, 900) == (64 - (USUAL_BYTES >> 20)) * NS_PER_MIB


def test_each_piece_taken_one_after_another_counts():
    assert cost_ns(900, *[868, 900] * 10) == (320 - (USUAL_BYTES >> 20)) * NS_PER_MIB


def test_memory_that_stays_or_is_given_back_costs_nothing():
    assert cost_ns(900, 900, 640, 640) == 0


def test_each_watch_counts_for_itself():
    device = Device(900, 1000)
    watch = FreshMemory(device.read)
    watch.start()
    assert device.seen.wait(10)
    assert watch.cost_ns() > 0
    watch.start()
    time.sleep(0.01)
    assert watch.cost_ns() == 0


def test_what_is_taken_between_two_watches_counts():
    used_mib = 900
    watch = FreshMemory(lambda: used_mib << 20)
    watch.start()
    assert watch.cost_ns() == 0
    used_mib = 1000
    watch.start()
    assert watch.cost_ns() > 0
    watch.forget()  # a burst later
    used_mib = 1100
    watch.start()
    assert watch.cost_ns() == 0


def test_without_readings_nothing_is_counted():
    watch = FreshMemory(None)
    watch.start()
    assert watch.cost_ns() == 0
