"""Uneven draws: their limits hold for honest results on others, and each process meets them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.judge.correctness import distance, oracle
from harness.judge.device.machine import Machine
from harness.judge.exchange.case_pool import CasePool
from harness.judge.tasks import input_families, set_allowances, updates
from harness.judge.tasks.opening import open_task

TASK = Path(__file__).parents[3] / "data" / "kernelbench" / "lstm_step.py"
DRAWS = 120


def test_the_frameworks_own_results_are_right_by_the_limits_of_other_draws(
    judge_cache: Path,
) -> None:
    """Where large inputs cancel before a function that saturates, few elements show it."""
    machine = Machine(judge_cache)
    try:
        opened, _ = open_task(
            machine, TASK.read_text(), str(TASK), lambda *_: None, None, timed=False
        )
        try:
            pool = opened.drawer.describe("default")
            opened.drawer.draw_checking(pool)
            drawn = [opened.drawer.draw_example(pool, "uneven") for _ in range(DRAWS)]
            limits = [set_allowances.family_allowances(pool, held) for held in drawn]
            for number in range(2):
                worst = sorted(
                    drawn,
                    key=lambda h: distance.measure(h.framework[number], h.expected[number]).worst,
                )[-10:]
                strictest = sorted((some[number] for some in limits), key=lambda a: a.least)[:10]
                assert strictest[0].element < 2e-3
                for held in worst:
                    own, exact = held.framework[number], held.expected[number]
                    for allowed in strictest:
                        assert oracle.compare(own, exact, allowed).signal is None
            pool.close()
        finally:
            opened.close()
    finally:
        machine.close()


@pytest.mark.parametrize(("count", "least"), [(1, 0), (2, 1), (3, 2), (4, 3), (12, 3), (64, 3)])
def test_each_family_is_among_the_timed_sets_of_a_process(count: int, least: int) -> None:
    borne = ["uneven", "raised", "moved"]
    for _ in range(300):
        found = input_families.timed_families(borne, count)
        assert len(found) == count
        assert len({*found} & {*borne}) >= least
        assert count < 4 or "dense" in found
    assert input_families.timed_families([], count) == ["dense"] * count


def test_most_timed_sets_are_named_where_a_look_tells_them() -> None:
    borne = ["uneven", "raised", "moved", "named"]
    found = input_families.timed_families(borne, 2000)
    assert found.count("named") > 1000
    assert len({*input_families.timed_families(borne, 32)}) == 5


def test_families_that_reveal_a_sample_come_first() -> None:
    borne = ["uneven", "raised", "moved", "above", "below"]
    for _ in range(100):
        assert "below" in input_families.timed_families(borne, 3, ["below"])
    found = input_families.timed_families(borne, 3000, ["below"])
    assert 850 < found.count("below") < 1150  # half of two thirds
    allowance = set_allowances.tolerance.Allowance(0.01, 0.1, 0.1, 0.0, 0.001)
    assert not input_families.reveals_a_sample([0.014], [allowance], [0])
    assert input_families.reveals_a_sample([0.0, 0.016], [allowance, allowance], [0, 1])
    # a large output shows any sample, which says nothing of a small one
    assert not input_families.reveals_a_sample([0.0, 0.016], [allowance, allowance], [0])


def test_a_sample_is_noticed_later_only_if_it_is_far_off_in_one_family() -> None:
    pool = CasePool(
        "default",
        {
            "inputs": {"leaves": [{"shape": [4096]}]},
            "outputs": {"leaves": [{"shape": [512]}, {"shape": [1]}, {"shape": [1024]}]},
        },
    )
    allowance = set_allowances.tolerance.Allowance(0.01, 0.1, 0.1, 0.0, 0.001)
    open_one = replace(allowance, rule="open")
    assert pool.sampled_alike == []  # none was tried
    input_families.note_errors(
        pool.sampled_errors, "input", [[0.2, 0.03, 0.0], []], input_families.norms([allowance] * 3)
    )
    assert pool.sampled_alike == [1]
    input_families.note_errors(
        pool.sampled_errors,
        "input",
        [[0.0, 0.2, 0.0]],
        input_families.norms([allowance, open_one, allowance]),
    )
    assert pool.sampled_alike == [1]
    input_families.note_errors(
        pool.sampled_errors,
        "input",
        [[0.0, 0.05, 0.0], [0.1, 0.0, 0.0]],
        input_families.norms([allowance] * 3),
    )
    assert pool.sampled_alike == []  # the second sample reads all that this output needs
    input_families.note_errors(
        pool.sampled_errors, "input", [[0.0, 0.0, 0.0]] * 3, input_families.norms([allowance] * 3)
    )
    assert pool.sampled_alike == []


@pytest.mark.parametrize(("dtype", "enough"), [("float32", 2e-4), ("bfloat16", 0.02)])
def test_little_to_be_seen_of_an_input_is_noticed(dtype: str, enough: float) -> None:
    leaf = {"shape": [4096], "dtype": dtype}
    pool = CasePool(
        "default",
        {
            "inputs": {"leaves": [leaf]},
            "outputs": {"leaves": [leaf, leaf]},
            "state": {},
            "terms": 64,
            "pointwise": False,
        },
    )
    limit = 2e-6 if dtype == "float32" else 0.01
    allowance = set_allowances.tolerance.Allowance(limit, 0.1, 0.1, 0.0, 0.001)
    least = pool.least_effects([allowance, replace(allowance, rule="open")])
    assert least == [pytest.approx(2.5e-4 if dtype == "float32" else 0.015, rel=0.1), math.inf]
    assert pool.least_effects([replace(allowance, rule="equal")] * 2) == [0, 0]
    assert pool.hardly_read == []
    input_families.note_errors(pool.effects, "input", [[0.0, 1.4], [limit, 0.9]], [least[0]] * 2)
    assert pool.hardly_read == [0]
    input_families.note_errors(
        pool.effects, "input", [[0.0, 0.0], [1.3 * least[0], 0.0]], [least[0]] * 2
    )
    assert pool.hardly_read == []


def test_each_kind_of_state_has_its_turn() -> None:
    pool = CasePool("default", {})
    assert pool.next_kind() == "changed"
    pool.state_allowances = {"uneven": [], "raised": [], "moved": []}
    for _ in range(20):
        assert sorted(pool.next_kind() for _ in range(3)) == ["moved", "raised", "uneven"]


def test_what_is_updated_alike_for_all_inputs_is_foreseen() -> None:
    def found(values: list[torch.Tensor], initial: torch.Tensor) -> bool:
        return updates.is_foreseen(values, initial)

    zeros, ones = torch.zeros(512), torch.ones(512)
    draws = [torch.randn(512) for _ in range(3)]
    assert found([ones / 3] * 3, zeros)
    assert found([torch.full((), 0.3)] * 3, torch.zeros(()))  # what went into it is not known
    assert not found([ones[:4]] * 3, zeros[:4])  # counters
    assert not found([ones[:4].long()] * 3, zeros[:4].long())
    assert found([ones.long()] * 3, zeros.long())
    assert not found([zeros.long()] * 3, zeros.long())  # nothing was updated
    assert not found(draws, zeros)
    partly = [torch.cat([draw[:400], ones[400:] / 3]) for draw in draws]
    assert found(partly, zeros)
    assert not found([torch.cat([draw[:500], ones[500:]]) for draw in draws], zeros)


@pytest.mark.parametrize(("name", "hidden"), [("residual16", [0]), ("branch", [])])
def test_a_product_hidden_in_every_state_is_noticed(
    judge_cache: Path, name: str, hidden: list[int]
) -> None:
    """A small step beside what it starts from is; a branch that is nearly off shows when it has
    been trained."""
    path = Path(__file__).parents[3] / "exploits" / "tasks" / f"{name}.py"
    machine = Machine(judge_cache)
    try:
        opened, _ = open_task(
            machine, path.read_text(), str(path), lambda *_: None, None, timed=False
        )
        try:
            pool = opened.pools["default"]
            assert pool.hardly_read == hidden
            assert not any(0 < each <= 1 for errors in pool.effects.values() for each in errors)
            assert any("hardly shows" in note for note in opened.notes) == bool(hidden)
        finally:
            opened.close()
    finally:
        machine.close()
