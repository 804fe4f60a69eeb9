"""When the loop goes on, pauses, stops and gives up."""

from __future__ import annotations

import pytest

from harness.types import Budget, Spent
from kevolve_mcp.driver import decisions
from kevolve_mcp.driver.decisions import Again, GiveUp, GoOn, Pause, Standing, Stop
from kevolve_mcp.errors import (
    BudgetFull,
    Conflict,
    EvaluatorUnavailable,
    KEvolveError,
    StoreError,
    UsageError,
)


def test_an_ask_goes_on_and_an_end_stops() -> None:
    assert decisions.after_batch(Standing(), 1, "", "")[1] == GoOn()
    assert decisions.after_batch(Standing(), 0, "budget", "20 of 20")[1] == Stop(
        "budget", "20 of 20"
    )


def test_nothing_to_take_while_others_work_is_a_pause_for_ever() -> None:
    standing = Standing(in_flight=1)
    for _ in range(100):
        standing, step = decisions.after_batch(standing, 0, "", "")
        assert step == Pause()


def test_nothing_to_take_and_nothing_under_way_ends_after_a_while() -> None:
    standing, step, pauses = Standing(), Pause(), 0
    while step == Pause():
        standing, step = decisions.after_batch(standing, 0, "", "")
        pauses += 1
    assert isinstance(step, Stop)
    assert step.reason == "idle"
    assert pauses == decisions.IDLE_IN_A_ROW


@pytest.mark.parametrize(
    ("after", "error", "limit", "meanwhile", "kind"),
    [
        (
            decisions.after_exhausted,
            Conflict("nothing left"),
            decisions.EXHAUSTED_IN_A_ROW,
            GoOn(),
            Stop,
        ),
        (
            decisions.after_author_error,
            KEvolveError("no key"),
            decisions.AUTHOR_ERRORS_IN_A_ROW,
            Again(),
            GiveUp,
        ),
        (
            decisions.after_submit_error,
            UsageError("empty source"),
            decisions.AUTHOR_ERRORS_IN_A_ROW,
            Again(),
            GiveUp,
        ),
        (
            decisions.after_submit_error,
            EvaluatorUnavailable("killed"),
            decisions.EVALUATOR_ERRORS_IN_A_ROW,
            GoOn(),
            GiveUp,
        ),
    ],
)
def test_a_failure_is_borne_until_it_repeats(  # type: ignore[no-untyped-def]
    after, error: KEvolveError, limit: int, meanwhile: decisions.Step, kind: type
) -> None:
    standing = decisions.took(Standing())
    for _ in range(limit - 1):
        standing, step = after(standing, error)
        assert step == meanwhile
        standing = standing if step == Again() else decisions.took(standing)
    standing, step = after(standing, error)
    assert isinstance(step, kind)
    assert standing.in_flight == 0


def test_a_node_forgives_what_failed_before() -> None:
    standing = Standing()
    for _ in range(10):
        standing, step = decisions.after_exhausted(
            decisions.took(standing), Conflict("nothing for this parent")
        )
        assert step == GoOn()
        standing = decisions.after_node(decisions.took(standing))
    assert standing.nodes == 10


def test_asks_under_way_are_counted_against_the_budget() -> None:
    budget = Budget(evaluations=6)
    assert decisions.before_asking(Standing(in_flight=2), budget, Spent(3)) == GoOn()
    assert decisions.before_asking(Standing(in_flight=2), budget, Spent(4)) == Pause()
    assert decisions.before_asking(Standing(in_flight=9), Budget(), Spent(4)) == GoOn()
    assert decisions.before_asking(Standing(), budget, Spent(6)) == GoOn()


def test_asks_that_the_author_declined_do_not_let_the_loop_wait_for_ever() -> None:
    standing, _ = decisions.after_exhausted(decisions.took(Standing()), Conflict("nothing"))
    standing = decisions.after_node(decisions.took(standing))
    assert decisions.after_batch(standing, 0, "", "")[1] == Stop(
        "author exhausted", "the author has no proposal for the asks that the budget allows"
    )


def test_an_author_without_a_proposal_waits_for_what_is_under_way() -> None:
    """A start that is being evaluated is what a computing author goes on from."""
    standing = decisions.took(Standing())
    for _ in range(2 * decisions.EXHAUSTED_IN_A_ROW):
        standing, step = decisions.after_exhausted(decisions.took(standing), Conflict("nothing"))
        assert step == Pause()
    assert standing.exhausted == 0


def test_a_broken_store_gives_up_at_once() -> None:
    error = StoreError("disk full")
    assert decisions.after_submit_error(decisions.took(Standing()), error)[1] == GiveUp(error)


def test_a_place_that_others_took_lets_the_server_say_what_is_left() -> None:
    error = BudgetFull("no place")
    standing, step = decisions.after_submit_error(decisions.took(Standing()), error)
    assert (standing.in_flight, step) == (0, GoOn())
