"""Why an interval is wide: causes are told from the rounds of processes."""

from __future__ import annotations

from dataclasses import replace

from harness.judge.figures.block import Block
from harness.judge.figures.case_times import CaseTimes
from harness.judge.timing import causes
from harness.targets.state import DeviceState

CALM = DeviceState(0)
LATER = DeviceState(1_000_000_000)
STEADY = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99]


def block(
    baseline: float, own: float, faults: tuple[float, ...] = (), after: DeviceState = LATER
) -> Block:
    pairs = [(baseline * a, own * b) for a, b in zip(STEADY, reversed(STEADY), strict=True)]
    return Block({"eager": pairs}, CALM, after, faults=list(faults))


def explain(blocks: list[Block], baseline: str) -> causes.Noise:
    for each in blocks:
        each.inner_ns = [1e3 * own for pairs in each.pairs.values() for _, own in pairs]
    return causes.explain(CaseTimes(blocks), baseline)


def test_ratios_include_what_was_done_ahead_of_measured_calls() -> None:
    """The figure does, and a reader sees both."""
    ahead = [replace(block(20, 5), calls=4, warm=4) for _ in range(3)]
    for each in ahead:
        each.unmeasured_ns.update({"": [40_000.0] * 8, "eager": [0.0] * 8})
    found = explain(ahead, "eager")
    times = CaseTimes(ahead)
    expected = [b / c for process in times.confirmed_pairs("eager") for b, c in process]
    assert min(expected) <= found.ratios[0] <= max(expected)
    assert found.ratios[0] < 3


def test_quiet_processes_have_ratios_and_no_cause() -> None:
    found = explain([block(20, 10)] * 3, "eager")
    assert [round(ratio, 1) for ratio in found.ratios] == [2.0, 2.0, 2.0]
    assert found.causes == ()
    assert "no cause shows" in str(found)
    assert explain([], "eager").ratios == ()


def test_one_process_of_three_that_stands_alone_is_named_with_its_side() -> None:
    (cause, *_) = explain([block(20, 10), block(20, 14), block(20, 10)], "eager").causes
    assert "process 2 of 3 stands alone: the candidate took 1.40 times" in cause


def test_a_clock_that_is_another_one_in_each_process_is_named() -> None:
    def at(*clocks: int | None) -> tuple[str, ...]:
        return explain(
            [block(20, 10, after=replace(LATER, core_mhz=mhz)) for mhz in clocks], "eager"
        ).causes

    assert at(2100, 3400, 3300) == (
        "the core ran at 2100 MHz in one process and at 3400 MHz in another",
    )
    assert at(3300, 3400, 3350) == at(None, None, None) == at(None, 3400, None) == ()


def test_a_baseline_of_two_speeds_is_seen_inside_processes() -> None:
    slow = [(20.0 if n % 2 else 34.0, 10.0) for n in range(8)]
    found = explain([Block({"eager": slow}, CALM, LATER)] * 3, "eager")
    assert any(
        "the baseline has two speeds: 20 us in 12 of 24 bursts, 34 us" in cause
        for cause in found.causes
    )


def test_scatter_faults_and_what_others_took_are_told() -> None:
    wild = [(20.0, us) for us in (10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 25.0)]
    assert any(
        "scatter by a factor" in cause
        for cause in explain([Block({"eager": wild}, CALM, LATER)], "eager").causes
    )
    (cause,) = explain([block(20, 10, (0, 0, 3072, 3072))], "eager").causes
    assert (
        cause
        == "the candidate met 3072 page faults a call in 2 of 4 bursts, and none in the others"
    )
    stolen = DeviceState(1_000_000_000, stolen_ns=300_000_000)
    (cause,) = explain([block(20, 10, after=stolen)], "eager").causes
    assert "the hypervisor held the core for 30%" in cause


def test_a_path_that_rests_on_the_values_of_parameters_is_named() -> None:
    def with_changes(later_us: float, baseline_us: float) -> Block:
        first, second = block(20, 1).pairs["eager"], block(baseline_us, later_us).pairs["eager"]
        return Block({"eager": [*first, *second]}, CALM, LATER, changed_at=8)

    (cause, *others) = explain([with_changes(20, 20)] * 3, "eager").causes
    assert "with the parameters as constructed the candidate takes 1 us, and 20 us after" in cause
    assert not any("the candidate has two speeds" in each for each in others)
    # the baseline does as well: it is the work that changed
    assert not any(
        "constructed" in each for each in explain([with_changes(2, 40)] * 3, "eager").causes
    )
    assert explain([replace(block(20, 1), changed_at=0)] * 3, "eager").causes == ()
