"""What a run may still spend."""

from __future__ import annotations

import anyio
import pytest

from harness.types import Budget, Spent
from kevolve_mcp.driver import RunOutcome, events
from kevolve_mcp.driver.proposal_budget import ProposalBudget
from kevolve_mcp.synthesis.authors import (
    FREE,
    AskAllowance,
    AskContext,
    AuthorError,
    AuthorUnavailable,
    AuthorUnusable,
    BudgetSpent,
    Cost,
    Proposal,
)

from .conftest import Runner, Steady


def test_without_limits_there_is_no_limit() -> None:
    assert ProposalBudget().reserve(1) == (1, AskAllowance())


def test_what_is_lent_and_used_is_not_lent_again() -> None:
    budget = ProposalBudget(Budget(tokens=1000, usd=1.0), Spent(tokens=100))
    first, allowance = budget.reserve(3)
    assert (allowance.tokens, allowance.usd) == (300, pytest.approx(1 / 3))
    second, other = budget.reserve(3)
    assert other.tokens == 300
    budget.release(first, Cost(250, 0.1))
    third, last = budget.reserve(2)
    assert last.tokens == 1000 - 100 - 250 - 300
    budget.release(second, FREE)
    budget.release(third, FREE)
    assert not budget.under_way
    assert budget.settled


def test_a_bill_counts_until_the_server_counts_it() -> None:
    budget = ProposalBudget(Budget(tokens=1000), Spent())
    number, _ = budget.reserve(1)
    budget.release(number, Cost(400, 0.5))
    bill = budget.bill()
    assert bill == Cost(400, 0.5)
    assert budget.reserve(1)[1].tokens == 600
    budget.billed(bill, None)
    assert budget.unbilled == bill
    budget.billed(budget.bill(), Spent(tokens=400, usd=0.5))
    assert budget.used() == Cost(400, 0.5)
    assert not budget.unbilled


def test_failed_proposals_use_a_limit_up() -> None:
    budget = ProposalBudget(Budget(usd=1.0), Spent(usd=0.75))
    assert budget.exhausted() == ""
    number, _ = budget.reserve(1)
    budget.release(number, Cost(10, 0.25))
    assert budget.exhausted() == "usd"
    assert budget.reserve(1)[1].usd == 0.0


def test_time_runs_between_two_answers_of_the_server() -> None:
    budget = ProposalBudget(Budget(seconds=100.0), Spent(seconds=40.0))
    seconds = budget.reserve(1)[1].seconds
    assert seconds is not None
    assert 0 < seconds <= 60


# in the loop --------------------------------------------------------------------------------------


class Paid(Steady):
    """Every proposal costs `tokens`; refuses where less is left, as authors must. Every `fails`-th
    one fails after all."""

    name = "paid"

    def __init__(self, tokens: int, fails: int = 0) -> None:
        super().__init__()
        self.tokens = tokens
        self.fails = fails
        self.calls = 0
        self.allowances: list[AskAllowance] = []

    async def propose(self, ask: AskContext) -> Proposal:
        if ask.start is not None:
            return Proposal(ask.start.source, ask.language)
        self.allowances.append(ask.allowance)
        if ask.allowance.tokens is not None and ask.allowance.tokens < self.tokens:
            raise BudgetSpent("too few tokens are left")
        self.calls += 1
        await anyio.sleep(0.01)
        cost = Cost(self.tokens, self.tokens / 1000)
        if self.fails and self.calls % self.fails == 0:
            raise AuthorError("garbage", cost=cost)
        return Proposal(f"{self.text}# for {ask.id}\n", ask.language, cost=cost)


def test_tokens_and_money_end_the_session_by_the_server_s_count(runner: Runner) -> None:
    outcome = runner.run(Paid(100), budget=Budget(tokens=300))
    assert outcome.reason == "budget_spent"
    assert outcome.nodes == 4  # the start cost nothing
    assert (outcome.session.spent.tokens, outcome.session.spent.usd) == (300, pytest.approx(0.3))
    (end,) = [e for e in runner.events if isinstance(e, events.Terminated)]
    assert "300 of 300 tokens" in end.detail
    assert outcome.ending is not None
    money = runner.run(Paid(100), budget=Budget(usd=0.2), new=True)
    assert (money.reason, money.nodes) == ("budget_spent", 3)


def test_a_remainder_that_pays_for_nothing_ends_the_search(
    runner: Runner,
) -> None:
    author = Paid(100)
    outcome = runner.run(author, budget=Budget(tokens=250))
    assert outcome.reason == "budget_spent"
    assert outcome.session.spent.tokens == 200
    assert author.allowances[-1].tokens == 50
    assert outcome.ending is not None


def test_failed_proposals_are_paid_with_the_next_node(runner: Runner) -> None:
    outcome = runner.run(Paid(100, fails=2), budget=Budget(tokens=700))
    assert outcome.reason == "budget_spent"
    assert outcome.session.spent.tokens == 700


@pytest.mark.parametrize("tokens", [500, 550])
def test_several_authors_do_not_overspend_together(runner: Runner, tokens: int) -> None:
    outcome: RunOutcome = runner.run(Paid(100), budget=Budget(tokens=tokens), parallel=4)
    assert outcome.reason == "budget_spent"
    assert outcome.session.spent.tokens == 500


@pytest.mark.parametrize(
    "error", [AuthorUnusable("no key", "set it"), AuthorUnavailable("down", "resume")]
)
def test_what_another_try_cannot_fix_ends_the_run_at_once(
    runner: Runner, error: AuthorError
) -> None:
    class Broken(Paid):
        async def propose(self, ask: AskContext) -> Proposal:
            if ask.start is not None:
                return Proposal(ask.start.source, ask.language)
            self.calls += 1
            error.cost = Cost(5, 0.0)
            raise error

    author = Broken(1)
    with pytest.raises(type(error)):
        runner.run(author)
    assert author.calls == 1
    remarks = [e.text for e in runner.events if isinstance(e, events.Remark)]
    assert any("5 tokens were spent on proposals without a node" in text for text in remarks)
