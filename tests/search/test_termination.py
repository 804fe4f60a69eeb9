import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.types import Budget, Goal, Spent
from kevolve_mcp.search import Figures, no_winner, room, terminate

from .build import ask, node, situations, tree

FAST = tree(node(1, 1.0), node(2, 2.31, 1, interval=(2.25, 2.38)), node(3, 0.0, 2))


def over(goal="best", budget=Budget(), spent=Spent(), made=FAST, **more):  # noqa: B008
    return terminate(made, Goal.parse(goal), budget, spent, **more)


def test_goals():
    reached = over("speedup:2")
    assert reached.reason == "goal_reached"
    assert reached.sentence == (
        "Goal reached: n2 is 2.31x (95 % interval 2.25 to 2.38), certainly at least 2.25x; the "
        "goal was 2x."
    )
    assert over("speedup:2.3") is None  # of which the median alone says so
    assert over("speedup:2.5") is None
    assert over("latency_us:50") is None
    assert over("latency_us:50", best=Figures(latency_us=49.0)).reason == "goal_reached"
    assert over("latency_us:50", best=Figures(latency_us=51.0)) is None
    assert over("roofline:0.8", best=Figures(roofline_fraction=0.8)).reason == "goal_reached"
    assert over("roofline:0.8", best=Figures(roofline_fraction=0.7)) is None
    assert over("speedup:2", made=tree(node(1, 3.0, eligible=False))) is None


def test_the_roofline_ends_any_search():
    assert over("speedup:9", best=Figures(roofline_fraction=0.97)).reason == "roofline_reached"
    assert over(best=Figures(roofline_fraction=0.97), roofline_fraction=None) is None


@pytest.mark.parametrize("limit", ["evaluations", "seconds", "device_seconds", "tokens", "usd"])
def test_every_budget_ends_the_search_and_says_which(limit):
    ended = over(budget=Budget(**{limit: 5}), spent=Spent(**{limit: 5}))
    assert ended.reason == "budget_spent"
    assert "5 of 5" in ended.sentence
    assert "n2 is 2.31x" in ended.sentence
    assert over(budget=Budget(**{limit: 5}), spent=Spent(**{limit: 4})) is None
    nothing = over(budget=Budget(**{limit: 5}), spent=Spent(**{limit: 5}), made=tree(node(1, 0.0)))
    assert "No candidate was proved correct" in nothing.sentence


def test_a_node_that_would_mostly_lie_beyond_the_limit_is_not_begun():
    made = tree(
        node(1, 1.0, seconds=20.0), node(2, 2.31, 1, seconds=18.0), node(3, 0.0, 2, seconds=1.0)
    )
    assert over(budget=Budget(seconds=75), spent=Spent(seconds=66.0), made=made) is None
    ended = over(budget=Budget(seconds=75), spent=Spent(seconds=66.5), made=made)
    assert ended.reason == "budget_spent"
    assert ended.sentence == (
        "Budget spent: 66 of 75 seconds; a node takes up to 18, more than the 8.5 left. Best: n2 "
        "is 2.31x."
    )
    assert over(spent=Spent(seconds=1e6), made=made) is None
    late = tree(*made.nodes, node(4, 0.0, 2, seconds=0.5))  # an ask that was open
    assert over(budget=Budget(seconds=75), spent=Spent(seconds=67.0), made=late) is not None
    # elsewhere, at another time
    stored = tree(node(1, 1.0, seconds=160.0), node(2, 2.31, 1, seconds=160.0))
    assert over(budget=Budget(seconds=75), spent=Spent(seconds=1.0), made=stored) is None


def test_a_stall_ends_the_search():
    made = tree(node(1, 2.0), *(node(i, 2.001, 1) for i in range(2, 7)))
    assert over(made=made, stall_after=5).reason == "stalled"
    assert "last 5 candidates" in over(made=made, stall_after=5).sentence
    assert over(made=made, stall_after=6) is None
    assert over(made=made, stall_after=None) is None
    assert over(made=tree(node(1, 0.0), node(2, 0.0)), stall_after=2).reason == "stalled"


def test_open_asks_are_mentioned_and_fill_the_budget():
    waiting = (ask(1, "draft"), ask(2, "draft"))
    assert over("speedup:2", open_asks=waiting).sentence.endswith(
        "2 asks are still open; their results will be recorded."
    )
    assert over("speedup:2", open_asks=waiting[:1]).sentence.endswith(
        "1 ask is still open; its result will be recorded."
    )
    assert room(Budget(evaluations=5), Spent(evaluations=2), waiting) == 1
    assert room(Budget(evaluations=3), Spent(evaluations=2), waiting) == 0
    assert room(Budget(), Spent(evaluations=2), waiting) is None


numbers = st.integers(0, 20)
spends = st.builds(
    Spent, numbers, numbers.map(float), numbers.map(float), numbers, numbers.map(float)
)
budgets = st.builds(Budget, *[st.none() | numbers for _ in range(5)])


@given(
    situations,
    budgets,
    spends,
    spends,
    st.sampled_from(["best", "speedup:1.5"]),
    st.none() | st.integers(1, 10),
)
def test_what_is_over_stays_over_whatever_is_spent(
    situation, budget, spent, more, goal, stall_after
):
    made, open_asks = situation
    later = Spent(
        *(
            getattr(spent, f) + getattr(more, f)
            for f in ("evaluations", "seconds", "device_seconds", "tokens", "usd")
        )
    )
    before, after = (
        terminate(made, Goal.parse(goal), budget, s, open_asks=open_asks, stall_after=stall_after)
        for s in (spent, later)
    )
    assert before is None or (after is not None and after.reason == before.reason)
    assert budget.exceeded(later) is None or after is not None


def test_a_correct_node_that_cannot_win_is_not_called_unproved() -> None:
    made = tree(node(1, 3.0, eligible=False), node(2, 2.0, eligible=False))
    spent = over("best", made=made, budget=Budget(evaluations=1), spent=Spent(2))
    assert spent is not None
    assert (
        "Each of the 2 correct candidates regresses a protected case or was not confirmed."
        in spent.sentence
    )
    one = "the only correct candidate regresses a protected case or was not confirmed"
    assert no_winner(1) == one
    assert no_winner(0) == "no candidate was proved correct"
