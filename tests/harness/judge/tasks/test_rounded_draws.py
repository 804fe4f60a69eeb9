"""Draws of a task that rounds to whole numbers: either neighbour is right near a tie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from harness.judge.correctness import oracle
from harness.judge.device.machine import Machine
from harness.judge.exchange.case_pool import CasePool
from harness.judge.tasks.drawer import MORE_DRAWS, Drawer
from harness.judge.tasks.opening import open_task
from harness.wire.nesting import tensors_of

TASKS = Path(__file__).parents[3] / "exploits" / "tasks"
DRAWS = 4


@contextmanager
def opened(name: str, cache: Path) -> Iterator[tuple[Drawer, CasePool]]:
    machine, path = Machine(cache), TASKS / f"{name}.py"
    try:
        task, _ = open_task(
            machine, path.read_text(), str(path), lambda *_: None, None, timed=False
        )
        try:
            pool = task.drawer.describe("default")
            task.drawer.draw_checking(pool)
            yield task.drawer, pool
            pool.close()
        finally:
            task.close()
    finally:
        machine.close()


def levels(x: torch.Tensor) -> torch.Tensor:
    """Of each row, by the reciprocal of its scale, before they are rounded."""
    return x * (127 / x.abs().amax(1, keepdim=True))


def test_the_reciprocal_of_a_scale_is_right_and_truncation_wrong(judge_cache: Path) -> None:
    with opened("levels", judge_cache) as (drawer, pool):
        assert pool.roundoff == 2.0**-24
        for family in ("dense", "scaled", "shifted", "uneven") * DRAWS:
            held = drawer.draw_example(pool, family)
            (x,) = tensors_of(held.file.value(held.layout))
            for rounded, right in ((torch.round, True), (torch.trunc, False)):
                own = rounded(levels(x)).to(torch.int8)
                found = oracle.compare(
                    own, held.expectation(0, own), held.allowances[0], held.framework[0]
                )
                assert (found.signal is None) == right, (family, found.detail)


def test_the_sets_of_a_burst_know_both_neighbours_as_well(judge_cache: Path) -> None:
    with opened("levels", judge_cache) as (drawer, pool):
        group = drawer._maker.make_group(pool, ["dense"] * DRAWS)
        given = [tensors_of(h.file.value(h.layout, h.base))[0] for h in group.sets]
        own = torch.stack([levels(x).round() for x in given]).to(torch.int8)
        wanted = group.expectation(0, own)
        framework = group.framework[0]
        assert framework is not None
        assert bool(((own == wanted) | (own == framework)).all())
        assert torch.equal(wanted[1], group.sets[1].expectation(0, own[1]))
        assert torch.equal(wanted[2:3], group.split()[2].expectation(0, own[2:3]))
        own[1] += 1
        assert int((group.expectation(0, own)[1] != own[1]).sum()) > 0.99 * own[1].numel()


def test_what_rounds_exact_values_knows_one(judge_cache: Path) -> None:
    with opened("halves", judge_cache) as (drawer, pool):
        assert pool.roundoff == 0.0
        assert drawer.sample(pool).alternatives == []


def test_what_chooses_among_computed_values_knows_several(judge_cache: Path) -> None:
    with opened("experts", judge_cache) as (drawer, pool):
        drawer.draw_checking(pool)
        assert pool.roundoff > 0
        assert "arbitrarily" in pool.dropped_families["uneven"]  # a softmax that has saturated
        assert pool.checking[0][1].alternatives


def test_outputs_that_count_are_known_and_framework_allowances_drawn_once(
    judge_cache: Path,
) -> None:
    with opened("active", judge_cache) as (drawer, pool):
        assert pool.counted == [1]
        held = pool.checking[0][1]
        assert held.counted == [1]
        first = drawer.framework_allowances(pool, 0, held.family, held)
        again = drawer.framework_allowances(pool, 0, held.family, None)
        assert first[1:] == again
        assert len(again) == MORE_DRAWS
        assert all(0 < each[0].norm < held.allowances[0].norm for each in first)
    with opened("experts", judge_cache) as (_, pool):
        assert pool.counted == []
