"""By how much a call may be longer than its figure where outputs may have been ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.figures.block import Block
from harness.judge.figures.case_times import HOST_BYTES, CaseTimes
from harness.judge.timing import left_open
from harness.targets.state import DeviceState

MIB = 1 << 20
COPYING_US = 200.0  # of an output, at the measured rate


def context(opened_us: float) -> Any:
    rate = 2 * MIB / COPYING_US * 1e6
    pool = SimpleNamespace(
        slot_bytes=MIB, state_bytes=0, calls=1, held_bytes=0, shared=False, pointwise=False,
        describe={"workspace_bytes": 2 * MIB},
    )  # fmt: skip
    facts = SimpleNamespace(cases=[SimpleNamespace(name="only", baselines_us={"eager": opened_us})])
    ceilings = SimpleNamespace(
        bandwidth={"L2": 4 * rate, "memory": rate}, write_bandwidth={"memory": rate}
    )
    return SimpleNamespace(
        task=SimpleNamespace(
            family=SimpleNamespace(SYNCHRONOUS=True, MARGIN=1.02), pools={"only": pool}
        ),
        machine=SimpleNamespace(ceilings_of=lambda _: ceilings),
        facts=facts,
        request=SimpleNamespace(earlier=SimpleNamespace(open_us={})),
    )


@pytest.mark.parametrize(
    ("baseline_us", "opened_us", "price"),
    [
        (100.0, 100.0, 1.0),  # less than copying takes
        (400.0, 400.0, 2.0),  # what a baseline takes for as many bytes
        (9000.0, 9000.0, 3.0),  # it computes as well
        (400.0, 100.0, 4.0),  # something else uses the memory
    ],
)
def test_what_ready_outputs_save_is_bounded_by_what_copying_takes(
    baseline_us: float, opened_us: float, price: float
) -> None:
    block = Block(
        {"eager": [(baseline_us, 50.0)] * 12},
        DeviceState(0),
        DeviceState(0),
        ready_bytes=[float(MIB)] * 12,
    )
    hidden = left_open.hidden_us(context(opened_us), CaseTimes([block]), "only", "eager")
    assert hidden == pytest.approx(price * COPYING_US)


@pytest.mark.parametrize(("more", "open_us"), [(0, 0.0), (40 * MIB, 10 * COPYING_US)])
def test_memory_prepared_for_the_rounds_of_a_half_is_open(more: int, open_us: float) -> None:
    """Beyond a process's own, parameters, outputs and the reference's workspace; five of eight
    rounds are enough for a median."""
    block = Block(
        {"eager": [(100.0, 50.0)] * 16},
        DeviceState(0),
        DeviceState(0),
        inner_ns=[50_000] * 16,
        changed_at=8,
        host_bytes={"": HOST_BYTES + 2 * MIB + more, "eager": 500 * MIB},
    )
    hidden = left_open.hidden_us(context(100.0), CaseTimes([block]), "only", "eager")
    assert hidden == pytest.approx(open_us * 8 / 10, abs=0.01)


def test_all_is_open_where_nobody_knows_what_calls_left() -> None:
    block = Block(
        {"eager": [(400.0, 50.0)] * 12}, DeviceState(0), DeviceState(0), state_doubt="new tensors"
    )
    assert left_open.hidden_us(context(400.0), CaseTimes([block]), "only", "eager") == 400.0


@pytest.mark.parametrize("ready_bytes", [0.0, 1.0])
@pytest.mark.parametrize(("pointwise", "open_us"), [(True, 0.0), (False, left_open.LAUNCH_US)])
def test_a_launch_that_clears_outputs_in_a_switch_is_left_open(
    pointwise: bool, open_us: float, ready_bytes: float
) -> None:
    on_a_device = context(400.0)
    pool = on_a_device.task.pools["only"]
    pool.shared, pool.pointwise = True, pointwise
    on_a_device.task.family.SYNCHRONOUS = False
    block = Block(
        {"eager": [(400.0, 50.0)] * 12},
        DeviceState(0),
        DeviceState(0),
        ready_bytes=[ready_bytes] * 12,
    )
    hidden = left_open.hidden_us(on_a_device, CaseTimes([block]), "only", "eager")
    assert hidden == pytest.approx(open_us, abs=0.01)


def test_what_a_call_takes_on_the_host_is_left_open() -> None:
    """Beyond what is free, whatever the device took."""
    block = Block(
        {"eager": [(400.0, 50.0)] * 12},
        DeviceState(0),
        DeviceState(0),
        host_us={"": 660.0, "eager": 350.0},
    )
    times = {"only": CaseTimes([block])}
    assert left_open.left_open_us(context(400.0), times, "only", "eager") == pytest.approx(110.0)
