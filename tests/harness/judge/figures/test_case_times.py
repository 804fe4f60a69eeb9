"""A candidate's own clock counts only as far as the judge's reproduces it."""

from __future__ import annotations

import random

import pytest

from harness.judge.figures import statistics
from harness.judge.figures.block import FREE_HOST_US, OTHER, Block, against
from harness.judge.figures.case_times import CaseTimes
from harness.targets.state import DeviceState

ROUNDS, TRUE_NS, GAP_NS = 8, 2_000_000.0, 250_000.0


def times(claims: list[float], noise_ns: float = 10_000.0, true_ns: float = TRUE_NS) -> CaseTimes:
    """Three processes of a candidate that takes true_ns and claims a share of it in each round;
    messages add noise."""
    rng = random.Random(5)
    found = CaseTimes()
    for _ in range(3):
        inner = [share * true_ns for share in claims]
        block = Block(
            {"eager": [(TRUE_NS / 1e3, ns / 1e3) for ns in inner]},
            DeviceState(0),
            DeviceState(0),
            inner_ns=inner,
        )
        block.outer_ns = [true_ns + GAP_NS + rng.expovariate(1 / noise_ns) for _ in claims]
        block.gap_ns = [GAP_NS + rng.expovariate(1 / noise_ns) for _ in claims]
        found.blocks.append(block)
    return found


def speedup(found: CaseTimes) -> float:
    return statistics.compare(found.confirmed_pairs("eager"), 1.02, random.Random(1)).speedup


@pytest.mark.parametrize("noise_ns", [10_000.0, 400_000.0])
def test_an_honest_figure_is_left_alone(noise_ns: float) -> None:
    found = times([1.0] * ROUNDS, noise_ns)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.15 if noise_ns > 1e5 else 0.01)


@pytest.mark.parametrize("honest_rounds", [0, 1, 2, 3])
def test_a_lie_in_most_rounds_changes_nothing(honest_rounds: int) -> None:
    found = times([1.0] * honest_rounds + [0.25] * (ROUNDS - honest_rounds))
    assert found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_lie_below_the_accusation_does_not_count_either() -> None:
    found = times([0.8] * ROUNDS)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_outputs_that_passed_the_caches_by_are_no_accusation() -> None:
    """Handing them over takes longer than the baseline's: seen on a machine with much cache, where
    an honest kernel was accused."""
    found = times([0.7] * ROUNDS)
    assert found.clock_disagrees()
    assert not found.clock_disagrees(copying_us=0.4 * TRUE_NS / 1e3)
    assert speedup(found) == pytest.approx(1.0, abs=0.05)


def test_a_really_faster_candidate_keeps_its_figure() -> None:
    found = times([1.0] * ROUNDS, true_ns=TRUE_NS / 4)
    assert not found.clock_disagrees()
    assert speedup(found) == pytest.approx(4.0, rel=0.02)


def alone(found: CaseTimes, candidate_us: float, baseline_us: float) -> CaseTimes:
    """The same with a device's calls alone."""
    rng = random.Random(6)
    for block in found.blocks:
        for side, us in (("", candidate_us), ("eager", baseline_us)):
            block.alone_us[side] = [us * rng.uniform(1, 1.05) for _ in range(8)]
    return found


@pytest.mark.parametrize("faster", [0.5, 1.0, 2.0, 5.0])
def test_what_every_call_alone_costs_accuses_nobody(faster: float) -> None:
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / faster), 500 + us / faster, 500 + us)
    assert found.alone_factor("eager") == 1.0
    assert speedup(found) == pytest.approx(faster, rel=0.02)


@pytest.mark.parametrize("faster", [1.0, 2.0, 3.0])
def test_a_figure_that_only_a_burst_has_does_not_count(faster: float) -> None:
    """Eight calls in one, so that a call's share is an eighth, of a candidate that is faster as
    well or is not."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / faster / 8), 500 + us / faster, 500 + us)
    assert speedup(found) == pytest.approx(faster, rel=0.1)


@pytest.mark.parametrize(("waiting", "waits"), [(0, False), (4, False), (5, True), (8, True)])
def test_a_call_that_waits_for_the_device_is_not_merged(waiting: int, waits: bool) -> None:
    """The judge's share of a burst is in its figure, and a call alone bears it all."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / 8), 5 * us, us)
    for block in found.blocks:
        block.waits = [n < waiting for n in range(8)]
        block.null_ns = [(100, 50)]
    assert found.waits == waits
    assert (found.alone_factor("eager") == 1.0) == waits
    assert found.alone_open_us("eager") > us  # what merging may have saved is left open


def test_work_after_the_last_call_of_a_turn_counts() -> None:
    """As unmeasured calls do, but for what it says of cold caches."""
    found = turns()
    usual = speedup(found), found.cold_us
    for block in found.blocks:
        block.late_ns = {"": [1e3 * CALL_US * (WARM + CALLS)] * TURNS, "eager": [0.0] * TURNS}
    assert speedup(found) < 0.65 * usual[0]
    assert found.cold_us == usual[1]
    for block in found.blocks:
        block.late_ns["eager"] = block.late_ns[""]  # the baseline's process does as much
    assert speedup(found) == pytest.approx(usual[0], rel=0.1)


def test_what_a_call_alone_can_save_is_left_open() -> None:
    """Calls in pairs, and as much saved of each call alone as that shows."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / 2), us / 2, us)
    for block in found.blocks:
        block.null_ns = [(100, 50)]
    assert found.alone_open_us("eager") < us / 10
    for block in found.blocks:
        block.alone_saved_us = us / 2
    assert found.alone_open_us("eager") > us / 2.5


@pytest.mark.parametrize(("together_us", "open_us"), [(0.0, 2080.0), (2080.0, 0.0)])
def test_what_nobody_sees_of_a_call_alone_is_open(together_us: float, open_us: float) -> None:
    """A slice was held beside each call alone, or one for each call of a burst, too: that is open
    for every call anyway."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS, true_ns=TRUE_NS / 2), us / 2, us)
    for block in found.blocks:
        block.null_ns = [(100, 50)]
    before_us = found.alone_open_us("eager")
    for block in found.blocks:
        block.alone_unseen_us, block.unseen_us = 2080.0, together_us
    assert found.alone_open_us("eager") == pytest.approx(before_us + open_us, abs=us / 100)
    assert found.alone_factor("eager") == 1.0  # not billed: it may have been held without work


def host(found: CaseTimes, alone: bool, own_us: float, usual_us: float) -> CaseTimes:
    """The same with what calls take on the host."""
    for block in found.blocks:
        block.null_ns = [(100, 50)]
        figure = block.alone_host_us if alone else block.host_us
        figure.update({"": own_us, "eager": usual_us})
    return found


@pytest.mark.parametrize(
    ("own_us", "usual_us", "open_us"),
    [
        (FREE_HOST_US, 5.0, 0.0),  # a few launches
        (FREE_HOST_US + 45, 5.0, 40.0),
        (540.0, 550.0, 0.0),  # of many launches, as the baseline's
        (FREE_HOST_US + 630, 550.0, 80.0),
    ],
)
def test_what_the_host_does_beyond_the_baseline_is_open(
    own_us: float, usual_us: float, open_us: float
) -> None:
    found = host(times([1.0] * ROUNDS), False, own_us, usual_us)
    assert found.host_open_us("eager") == pytest.approx(open_us)
    assert speedup(found) == pytest.approx(1.0, abs=0.01)  # it raises no figure
    assert found.host_open_us("compile") == 0.0  # timed against nobody


@pytest.mark.parametrize(("burst_us", "open_us"), [(20.0, 80.0), (FREE_HOST_US + 30, 50.0)])
def test_what_the_host_does_for_a_call_alone_is_open(burst_us: float, open_us: float) -> None:
    """It may have computed what calls of a burst share: beyond what is open for each anyway."""
    us = TRUE_NS / 1e3
    found = alone(times([1.0] * ROUNDS), us, us)
    found = host(host(found, False, burst_us, 5.0), True, 20.0, 5.0)
    before_us = found.alone_open_us("eager")
    host(found, True, FREE_HOST_US + 80, 5.0)
    added_us = found.alone_open_us("eager") - before_us
    assert added_us == pytest.approx(open_us, abs=us / 100)


def test_another_candidate_s_host_time_is_free_as_well() -> None:
    own, other = (
        host(times([1.0] * ROUNDS), False, us, 5.0).blocks[0]
        for us in (FREE_HOST_US + 400, FREE_HOST_US + 50)
    )
    assert against(own, other).host_open_us(OTHER) == pytest.approx(350 - FREE_HOST_US)
    assert against(other, own).host_open_us(OTHER) == 0.0


WARM, CALLS, TURNS, CALL_US = 6, 2, 16, 40.0


def turns(
    saved: float = 0.0, share: float = 1.0, luck: float = 0.0, busy: float = 0.0, seed: int = 3
) -> CaseTimes:
    """Three processes of a candidate as fast as the baseline that does so much of each measured
    call in unmeasured ones, in a share of its turns. luck: by how much of a call the unmeasured
    ones of one process differ from another's (standard deviation). busy: in how many turns somebody
    else has the core for milliseconds."""
    rng, found = random.Random(seed), CaseTimes()
    for _ in range(3):
        block = Block(
            {"eager": []},
            DeviceState(0),
            DeviceState(0),
            calls=CALLS,
            warm=WARM,
            null_ns=[(20_000, 10_000)],
        )
        lucky, often = rng.gauss(0, luck), rng.uniform(0, 2 * busy)
        for _ in range(TURNS):
            ahead = saved * (rng.random() < share)
            pace = 1 - ahead
            block.pairs["eager"].append(
                (
                    CALL_US * rng.lognormvariate(0, 0.05),
                    CALL_US * pace * rng.lognormvariate(0, 0.05),
                )
            )
            own, other = (
                3 * rng.lognormvariate(0, 0.2) + (rng.random() < often) * rng.uniform(50, 500)
                for _ in range(2)
            )
            own += WARM * (1 + lucky) + CALLS * ahead - WARM * pace
            for side, calls in (("", own), ("eager", other)):
                block.unmeasured_ns.setdefault(side, []).append(1e3 * CALL_US * calls)
        block.inner_ns = block.outer_ns = [1e3 * CALLS * own for _, own in block.pairs["eager"]]
        block.gap_ns = [0.0] * TURNS
        found.blocks.append(block)
    return found


def verdict(found: CaseTimes) -> str:
    open_us = found.clock_open_us + found.hidden_us("eager", 1.02, 0.0)
    return statistics.compare(
        found.confirmed_pairs("eager"), 1.02, random.Random(1), open_us=open_us
    ).verdict


@pytest.mark.parametrize(("luck", "busy"), [(0.0, 0.0), (0.15, 0.0), (0.0, 0.3), (0.15, 0.3)])
def test_what_chance_adds_to_unmeasured_calls_raises_no_figure(luck: float, busy: float) -> None:
    """Rounds of one process agree on what it has by luck, and all of them together would be sure of
    it."""
    assert not [
        seed
        for seed in range(100)
        if turns(luck=luck, busy=busy, seed=seed).unmeasured_factor("eager") > 1.02
    ]


@pytest.mark.parametrize("saved", [0.5, 0.8])
def test_unmeasured_work_counts_but_for_what_cold_caches_explain(
    saved: float,
) -> None:
    found = turns(saved)
    assert statistics.compare(found.pairs("eager"), 1.02, random.Random(1)).verdict == "faster"
    assert speedup(found) == pytest.approx(1 / (1 - found.cold_us / CALL_US), rel=0.15)
    assert verdict(found) != "faster"


@pytest.mark.parametrize("share", [0.55, 0.65, 0.75, 0.85])
def test_what_too_few_turns_show_to_be_counted_is_left_open(share: float) -> None:
    assert "faster" not in [verdict(turns(0.8, share, seed=seed)) for seed in range(20)]


def holding(own: int, baseline: int, calls: int = 10) -> CaseTimes:
    """ROUNDS of so many calls, with bytes of device memory held by both sides."""
    found = times([1.0] * ROUNDS)
    for block in found.blocks:
        block.calls, block.device_bytes = calls, {"": own, "eager": baseline}
    return found


def test_memory_beyond_the_baselines_may_be_written_early() -> None:
    mib, gib = 1 << 20, 1 << 30
    held = holding(3 * gib, gib)
    assert held.early_bytes("eager", 0) == (2 * gib - 64 * mib) / 10
    # a copy of the parameters is no work of each call
    assert held.early_bytes("eager", gib) == (gib - 64 * mib) / 10
    assert held.early_bytes("compile", 0) == 0.0


def test_processes_of_equal_kernels_write_nothing_early() -> None:
    mib, gib = 1 << 20, 1 << 30
    assert holding(gib + 60 * mib, gib).early_bytes("eager", 0) == 0.0
    assert holding(gib, 3 * gib).early_bytes("eager", 0) == 0.0
    assert times([1.0] * ROUNDS).early_bytes("eager", 0) == 0.0


def test_all_that_a_process_holds_may_be_cleared_before_the_rounds() -> None:
    gib = 1 << 30
    held = holding(5 * gib, 5 * gib)
    for block in held.blocks:
        block.inner_ns, block.changed_at = [1.0] * ROUNDS, ROUNDS // 4
    # spread over the calls of the shorter half that a median needs
    calls = 10 * (ROUNDS // 4) * 5 / 8
    assert held.cleared_bytes(gib) == pytest.approx(3 * gib / calls)
    assert held.cleared_bytes(5 * gib) == 0.0
    for block in held.blocks:
        block.unowned_bytes = gib
    assert held.cleared_bytes(gib) == pytest.approx(4 * gib / calls)
    assert held.early_bytes("eager", 0) == pytest.approx((gib - (64 << 20)) / 10)
    for block in held.blocks:
        block.unverified_rounds = 1
    assert held.cleared_bytes(gib) == pytest.approx(4 * gib / 10)
    assert times([1.0] * ROUNDS).cleared_bytes(0) == 0.0


def test_memory_of_the_host_is_none_of_a_device() -> None:
    """Where the driver does not report what a process holds."""
    gib = 1 << 30
    held = times([1.0] * ROUNDS)
    for block in held.blocks:
        block.host_bytes, block.device_bytes = {"": 5 * gib}, {}
        block.inner_ns, block.changed_at = [1.0] * ROUNDS, ROUNDS // 2
    assert held.cleared_bytes(0) == 0.0
    assert held.prepared_bytes(gib) > 0.0


@pytest.mark.parametrize(("ready_rounds", "ready_bytes"), [(0, 0.0), (8, 0.0), (9, 4.0), (24, 4.0)])
def test_outputs_that_were_ready_in_three_of_eight_rounds_count(
    ready_rounds: int, ready_bytes: float
) -> None:
    """Over all processes: an allocator that has not settled gives memory of its own as well."""
    found = times([1.0] * ROUNDS)
    figures = [4.0] * ready_rounds + [0.0] * (3 * ROUNDS - ready_rounds)
    for number, block in enumerate(found.blocks):
        block.ready_bytes = figures[number * ROUNDS : (number + 1) * ROUNDS]
    assert found.ready_bytes == ready_bytes
    assert CaseTimes(found.blocks[:0]).ready_bytes == 0.0


def test_work_that_some_turns_do_for_all_is_left_open() -> None:
    """One turn in six fills the outputs of all of them: no median shows it."""

    def process(candidate_us: list[float], extra_ns: float = 0.0) -> Block:
        pairs = {"eager": [(100.0, us) for us in candidate_us]}
        unmeasured = {"": [extra_ns, *[0.0] * 11], "eager": [0.0] * 12}
        return Block(
            pairs, DeviceState(0), DeviceState(0), calls=1, warm=3, unmeasured_ns=unmeasured
        )

    def hidden_us(*processes: Block) -> float:
        return CaseTimes(list(processes)).hidden_us("eager", 1.02, 0.0)

    calm, batches = [50.0] * 12, [350.0, *[50.0] * 5] * 2
    assert hidden_us(*[process(batches)] * 3) == pytest.approx(50)
    # in an unmeasured call of one turn: 2.4 ms over twelve turns of four calls
    assert hidden_us(*[process(calm, 2.4e6)] * 3) == pytest.approx(50)
    # a busy machine disturbs some processes, and every process does its own work
    assert hidden_us(process(calm), process(calm), process(batches)) == 0
    assert hidden_us(*[process([51.0, *calm[1:]])] * 3) == 0


def test_what_turns_hide_in_different_ways_is_added_turn_by_turn() -> None:
    """Of calls of 100 us, 60 us are saved in three turns of four: in a third of all turns outputs
    were ready, in five of twelve the unmeasured calls did the work. Neither shows in half of
    them."""
    ways = ["ready", "ahead", "ready", "ahead", "plain", "ahead"] * 2
    block = Block(
        {"eager": [(100.0, 100.0 if way == "plain" else 40.0) for way in ways]},
        DeviceState(0),
        DeviceState(0),
        calls=1,
        warm=1,
        unmeasured_ns={"": [120e3 * (way == "ahead") for way in ways], "eager": [0.0] * 12},
        ready_bytes=[6.0 * (way == "ready") for way in ways],
    )
    found = CaseTimes([block] * 3)
    assert found.hidden_us("eager", 1.02, us_per_byte=10.0) == pytest.approx(60)
    assert found.ready_bytes == 0.0


@pytest.mark.parametrize(
    ("rounds", "changed_at", "settled_after", "open_us"),
    [
        (64, 32, 64, 60.0),  # all turns find new memory
        (16, 8, 16, 60.0),
        (64, 32, 12, 0.0),  # a heap that settles
        (8, 4, 8, 0.0),  # too few turns to tell
    ],
)
def test_new_memory_in_later_turns_may_have_been_ready(
    rounds: int, changed_at: int, settled_after: int, open_us: float
) -> None:
    """Whatever lies in it: outputs may be ready for more kinds than anybody knows."""
    block = Block(
        {"eager": [(100.0, 40.0)] * rounds},
        DeviceState(0),
        DeviceState(0),
        calls=1,
        ready_bytes=[0.0] * rounds,
        unknown_bytes=[6.0 * (n % changed_at < settled_after) for n in range(rounds)],
        changed_at=changed_at,
    )
    found = CaseTimes([block] * 3)
    assert found.hidden_us("eager", 1.02, us_per_byte=10.0) == pytest.approx(open_us)
