import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.types import CaseResult
from kevolve_mcp.search import (
    Meeting,
    against_parent,
    compare,
    dominates,
    figures,
    fitness,
    interval,
    prediction,
    progress,
    rank,
    ratio,
    stalled_for,
    undominated,
)
from kevolve_mcp.search.tree import AUTHOR, AUTOMATIC

from .build import node, situations, tree


def case(name, speedup, weight=1.0, spread=1.02, **more):
    return CaseResult(
        name,
        weight,
        correct=True,
        speedup=speedup,
        interval=(speedup / spread, speedup * spread),
        **more,
    )


def test_interval_encloses_f_and_is_as_wide_as_its_cases():
    cases = [case("a", 2.0, 3.0), case("b", 0.5), case("hidden", 9.0, held_out=True)]
    low, high = interval(cases)
    assert low == pytest.approx(fitness(cases) / 1.02)
    assert high == pytest.approx(fitness(cases) * 1.02)


def test_no_interval_without_f_or_with_a_case_that_has_none():
    assert interval([]) is None
    assert interval([CaseResult("a", correct=False)]) is None
    assert interval([CaseResult("a", correct=True, speedup=2.0)]) is None


def test_figures_weigh_latency_and_take_the_worst_roofline():
    cases = [
        case("a", 2, 3, latency_us=10.0, roofline_fraction=0.9),
        case("b", 2, 1, latency_us=50.0, roofline_fraction=0.4),
    ]
    assert figures(cases).latency_us == pytest.approx(20.0)
    assert figures(cases).roofline_fraction == 0.4
    partial = figures([*cases, case("c", 2)])
    assert (partial.latency_us, partial.roofline_fraction) == (None, None)
    assert figures([]).latency_us is None


def wide(number, score, spread):
    return node(number, score, interval=(score / spread, score * spread))


def test_compare_waits_for_evidence():
    assert compare(node(2, 1.5), node(1, 1.0)) == "improved"
    assert compare(node(2, 1.0), node(1, 1.5)) == "regressed"
    assert compare(node(2, 1.01), node(1, 1.0)) == "equivalent"
    assert compare(wide(2, 1.2, 1.3), wide(1, 1.0, 1.3)) == "inconclusive"
    assert compare(wide(2, 1.2, 1.01), wide(1, 1.0, 1.01)) == "improved"
    assert compare(node(2, 0.1), node(1, 0.0)) == "improved"
    assert compare(node(2, 0.0), node(1, 0.1)) == "regressed"
    assert compare(node(2, 0.0), node(1, 0.0)) == "equivalent"
    assert compare(node(2, None), node(1, 1.0)) == "inconclusive"


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1.0, 1.5), st.floats(1.0, 1.5))
def test_compare_is_antisymmetric(a, b, da, db):
    mirror = {
        "improved": "regressed",
        "regressed": "improved",
        "equivalent": "equivalent",
        "inconclusive": "inconclusive",
    }
    assert (
        compare(wide(1, a, da), wide(2, b, db)) == mirror[compare(wide(2, b, db), wide(1, a, da))]
    )


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1.0, 1.5), st.floats(1.0, 1.5))
def test_ratio_shows_the_interval_that_compare_judges(a, b, da, db):
    one, two = wide(1, a, da), wide(2, b, db)
    value, (low, high) = ratio(one, two)
    assert value == pytest.approx(a / b)
    assert low <= value * 1.000001
    assert value <= high * 1.000001
    assert (compare(one, two) == "improved") == (low > 1.02) or low == pytest.approx(1.02)
    assert ratio(node(1, 0.0), two) is None
    assert ratio(node(1, 1.0), two)[1] is None


def test_against_parent_takes_the_better_parent():
    made = tree(node(1, 1.0), node(2, 2.0), node(3, 1.5, 1, 2), node(4, 1.5, 1))
    assert against_parent(made, made.by_id["n3"]) == "regressed"
    assert against_parent(made, made.by_id["n4"]) == "improved"
    assert against_parent(made, made.by_id["n1"]) == "inconclusive"


def test_ranking_puts_eligible_first_and_equals_in_order():
    made = [node(1, 1.0), node(2, 3.0, eligible=False), node(3, 1.0), node(4, 2.0), node(5, 0.0)]
    assert [n.id for n in rank(made)] == ["n4", "n1", "n3", "n2", "n5"]


def test_undominated_are_those_that_noise_cannot_tell_apart():
    made = [
        wide(1, 2.0, 1.05),
        wide(2, 1.98, 1.05),
        wide(3, 1.0, 1.05),
        node(4, 0.0),
        node(5, 9.0, eligible=False),
    ]
    assert [n.id for n in undominated(made)] == ["n1", "n2", "n5"]
    assert dominates(made[0], made[2])
    assert not dominates(made[4], made[0])


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


def test_prediction_against_observation():
    made = tree(
        node(1, 1.0),
        node(2, 2.0, 1, predicted_speedup=4.0),
        node(3, 0.5, 1, predicted_speedup=1.2),
        node(4, 0.0, 1, predicted_speedup=2.0),
    )
    good, bad, failed = (prediction(made, made.by_id[i]) for i in ("n2", "n3", "n4"))
    assert good.log_error == pytest.approx(math.log(0.5))
    assert good.direction is True
    assert bad.direction is False
    assert failed is None
    assert (
        prediction(
            tree(node(1, 1.0, predicted_speedup=1.5)), node(1, 1.0, predicted_speedup=1.5)
        ).direction
        is None
    )


def test_what_the_same_rounds_say_counts() -> None:
    first = node(1, 1.5, interval=(1.2, 1.8))
    second = node(2, 1.55, 1, interval=(1.2, 1.9), met=Meeting("n1", "faster", 1.08, (1.05, 1.1)))
    assert compare(second, first) == "improved"
    assert compare(first, second) == "regressed"
    assert ratio(second, first) == (1.08, (1.05, 1.1))
    turned = ratio(first, second)
    assert turned is not None
    assert turned[1] == pytest.approx((1 / 1.1, 1 / 1.05))
    assert progress([first, second]) == (first, second)


def test_settings_that_nobody_wrote_are_no_stall():
    first = node(1, 1.5)
    tried = [node(n, 1.4, 1, annotations={AUTHOR: AUTOMATIC}) for n in range(2, 30)]
    assert stalled_for([first, *tried]) == 0
    assert stalled_for([first, *tried, node(30, 1.4, 1)]) == 1
    assert stalled_for([node(1, 0), *tried[:1]]) == 0  # the best moved, whoever moved it
