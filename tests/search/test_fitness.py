import pytest

from harness.types import CaseResult
from kevolve_mcp.search import figures, fitness, interval


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
