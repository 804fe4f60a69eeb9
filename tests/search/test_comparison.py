from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.types import Target
from kevolve_mcp.search import (
    Meeting,
    NodeComparison,
    assured,
    compare,
    observed,
    progress,
    stalled_for,
    undominated,
    versus_parent,
)
from kevolve_mcp.search.provenance import PARAMETER_SEARCH
from kevolve_mcp.search.ranking import losses, standings

from .build import node, situations, tree


def wide(number, score, spread):
    return node(number, score, interval=(score / spread, score * spread))


def change(one, two):
    return compare(one, two).change


def test_compare_waits_for_evidence():
    assert change(node(2, 1.5), node(1, 1.0)) == "improved"
    assert change(node(2, 1.0), node(1, 1.5)) == "regressed"
    assert change(node(2, 1.01), node(1, 1.0)) == "equivalent"
    assert change(wide(2, 1.2, 1.3), wide(1, 1.0, 1.3)) == "inconclusive"
    assert change(wide(2, 1.2, 1.01), wide(1, 1.0, 1.01)) == "improved"
    assert change(node(2, 0.1), node(1, 0.0)) == "improved"
    assert change(node(2, 0.0), node(1, 0.1)) == "regressed"
    assert change(node(2, 0.0), node(1, 0.0)) == "equivalent"
    assert change(node(2, None), node(1, 1.0)) == "inconclusive"


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1.0, 1.5), st.floats(1.0, 1.5))
def test_compare_is_antisymmetric(a, b, da, db):
    mirror = {
        "improved": "regressed",
        "regressed": "improved",
        "equivalent": "equivalent",
        "inconclusive": "inconclusive",
    }
    assert change(wide(1, a, da), wide(2, b, db)) == mirror[change(wide(2, b, db), wide(1, a, da))]


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1.0, 1.5), st.floats(1.0, 1.5))
def test_the_change_is_what_the_interval_shown_says(a, b, da, db):
    found = compare(wide(1, a, da), wide(2, b, db))
    low, high = found.interval
    assert found.ratio == pytest.approx(a / b)
    assert low <= found.ratio * 1.000001
    assert found.ratio <= high * 1.000001
    assert (found.change == "improved") == (low > 1.02)
    assert (found.change == "regressed") == (high < 1 / 1.02)


def test_without_figures_there_is_no_ratio():
    assert compare(node(1, 0.0), node(2, 1.0)).ratio is None
    assert compare(node(1, 1.0), wide(2, 1.0, 1.1)).interval is None


def test_the_margin_is_that_of_the_device():
    near = wide(2, 1.015, 1.001)
    assert change(near, wide(1, 1.0, 1.001)) == "equivalent"
    quiet = Target.parse("cuda:sm_90").margin
    on_gpu = [replace(n, margin=quiet) for n in (near, wide(1, 1.0, 1.001))]
    assert change(*on_gpu) == "improved"
    assert stalled_for(on_gpu[::-1]) == 0


def test_against_its_parents_a_node_meets_the_better_one():
    made = tree(node(1, 1.0), node(2, 2.0), node(3, 1.5, 1, 2), node(4, 1.5, 1))
    found = {n.id: versus_parent(made, n) for n in made.nodes}
    assert (found["n3"].change, found["n3"].ratio) == ("regressed", 0.75)
    assert found["n4"].change == "improved"
    assert found["n1"] == NodeComparison("inconclusive")
    assert [observed(made, n) for n in made.nodes] == [1.0, 2.0, 0.75, 1.5]


def test_ranking_puts_eligible_first_and_equals_in_order():
    made = [node(1, 1.0), node(2, 3.0, eligible=False), node(3, 1.0), node(4, 2.0), node(5, 0.0)]
    assert [n.id for n in tree(*made).ranked(made)] == ["n4", "n1", "n3", "n2", "n5"]


def test_undominated_are_those_that_noise_cannot_tell_apart():
    made = [
        wide(1, 2.0, 1.05),
        wide(2, 1.98, 1.05),
        wide(3, 1.0, 1.05),
        node(4, 0.0),
        node(5, 9.0, eligible=False),
    ]
    assert [n.id for n in undominated(made)] == ["n1", "n2", "n5"]


def test_progress_ignores_luck_and_adds_up_small_steps():
    made = [
        node(1, 1.0),
        node(2, 1.01),
        node(3, 1.019),
        node(4, 1.03),
        node(5, 0.0),
        node(6, 5.0, eligible=False),
    ]
    assert [n.id for n in progress(made)] == ["n1", "n4"]
    assert stalled_for(made) == 2
    assert stalled_for([node(1, 0.0), node(2, 0.0)]) == 2
    assert stalled_for([]) == 0


@given(situations)
def test_stall_counts_grow_by_one_or_start_again(situation):
    nodes = situation[0].nodes
    counts = [stalled_for(nodes[: i + 1]) for i in range(len(nodes))]
    assert all(b in (0, a + 1) for a, b in zip([0, *counts], counts, strict=False))


def test_what_the_same_rounds_say_counts() -> None:
    first = node(1, 1.5, interval=(1.2, 1.8))
    second = node(2, 1.55, 1, interval=(1.2, 1.9), met=Meeting("n1", "faster", 1.08, (1.05, 1.1)))
    assert change(second, first) == "improved"
    assert change(first, second) == "regressed"
    assert compare(second, first) == NodeComparison("improved", 1.08, (1.05, 1.1))
    assert compare(first, second).interval == pytest.approx((1 / 1.1, 1 / 1.05))
    assert progress([first, second]) == (first, second)


def test_a_meeting_that_both_figures_contradict_decides_nothing() -> None:
    """Such as one in which a kernel was slow that is not when it is timed by itself."""
    first = node(1, 1.5, interval=(1.4, 1.6))
    second = node(2, 1.52, 1, interval=(1.4, 1.6), met=Meeting("n1", "faster", 2.8, (2.5, 3.1)))
    alone = replace(second, met=None)
    assert compare(second, first) == compare(alone, first)
    assert compare(first, second) == compare(first, alone)
    assert progress([first, second]) == (first,)
    assert standings([first, second]) == standings([first, alone])
    assert losses([first, second]) == {}


def test_figures_of_different_runs_may_drift() -> None:
    first = node(1, 1.5, interval=(1.49, 1.51))
    second = node(
        2, 1.505, 1, interval=(1.495, 1.515), met=Meeting("n1", "faster", 1.03, (1.022, 1.038))
    )
    assert compare(second, first).change == "improved"


def test_settings_that_nobody_wrote_are_no_stall():
    first = node(1, 1.5)
    tried = [node(n, 1.4, 1, author=PARAMETER_SEARCH) for n in range(2, 30)]
    assert stalled_for([first, *tried]) == 0
    assert stalled_for([first, *tried, node(30, 1.4, 1)]) == 1
    assert stalled_for([node(1, 0), *tried[:1]]) == 0  # the best moved, whoever moved it


def test_evidence_needs_the_same_rounds_and_the_figures_of_both():
    """A parent that is slow where it meets its child, and at random alone."""
    first = node(1, 1.5, interval=(1.33, 1.72))
    child = node(2, 1.62, interval=(1.5, 1.75), met=Meeting("n1", "faster", 1.89, (1.48, 2.27)))
    assert compare(child, first).interval == (1.48, 2.27)
    assert assured(child, first)[1] == pytest.approx((0.93, 2.27), abs=0.02)
    # figures that say as much take nothing away
    known = replace(first, interval=(1.48, 1.52))
    sure = node(3, 1.55, interval=(1.515, 1.58), met=Meeting("n1", "faster", 1.02, (1.001, 1.03)))
    assert assured(sure, known) == (1.02, (1.001, 1.03))
    # where they never met, nothing changes
    apart = node(4, 2.0, interval=(1.9, 2.1))
    assert assured(apart, first) == (compare(apart, first).ratio, compare(apart, first).interval)
