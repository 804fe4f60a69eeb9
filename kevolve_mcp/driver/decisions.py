"""The loop's decisions as pure functions, separate from its effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from harness.types import Budget, Spent
from kevolve_mcp.errors import BudgetFull, EvaluatorUnavailable, KEvolveError, UsageError
from kevolve_mcp.synthesis.authors import AuthorUnavailable, AuthorUnusable, BudgetSpent

# an author without an idea for one parent may have one for the policy's next parent
EXHAUSTED_IN_A_ROW = 8
AUTHOR_ERRORS_IN_A_ROW = 3
EVALUATOR_ERRORS_IN_A_ROW = 3
IDLE_IN_A_ROW = 20


@dataclass(frozen=True)
class Standing:
    """What the decisions depend on. in_flight: asks being answered; declined: asks for which the
    author had no proposal, which stay open on the server; the other counts are since the last
    success."""

    nodes: int = 0
    in_flight: int = 0
    declined: int = 0
    exhausted: int = 0
    author_errors: int = 0
    evaluator_errors: int = 0
    idle: int = 0


@dataclass(frozen=True)
class GoOn:
    """Take the next ask."""


@dataclass(frozen=True)
class Again:
    """Let the author answer the same ask again: nobody else will, and an open ask reserves
    budget."""


@dataclass(frozen=True)
class Pause:
    """There is no ask to take now: wait until a job ends."""


@dataclass(frozen=True)
class Stop:
    """End the search and finish the session with its best node."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class GiveUp:
    """End the run and leave the session open: resuming later may succeed."""

    error: KEvolveError


Step: TypeAlias = GoOn | Again | Pause | Stop | GiveUp


def before_asking(standing: Standing, budget: Budget, spent: Spent) -> Step:
    """Decide whether one more ask fits the evaluation budget beside those in flight, so that
    several authors do not overspend it.

    With none in flight the server is asked in any case, since it decides when the search is over.
    """
    if (
        budget.evaluations is not None
        and standing.in_flight
        and spent.evaluations + standing.in_flight >= budget.evaluations
    ):
        return Pause()
    return GoOn()


def took(standing: Standing) -> Standing:
    return replace(standing, in_flight=standing.in_flight + 1, idle=0)


def after_node(standing: Standing) -> Standing:
    """Return the standing after a node was inserted."""
    return Standing(standing.nodes + 1, standing.in_flight - 1, standing.declined)


def after_batch(standing: Standing, asks: int, ended: str, detail: str) -> tuple[Standing, Step]:
    """Decide after an answer of session_next. Without an ask and without an end, all asks that the
    budget allows are taken: by this run, by another author, or declined by this author."""
    if ended:
        return standing, Stop(ended, detail)
    if asks:
        return standing, GoOn()
    if standing.in_flight:
        return standing, Pause()
    if standing.declined:
        return standing, Stop(
            "author exhausted", "the author has no proposal for the asks that the budget allows"
        )
    standing = replace(standing, idle=standing.idle + 1)
    if standing.idle < IDLE_IN_A_ROW:
        return standing, Pause()
    return standing, Stop("idle", "the server has no ask to give and none is being answered")


def after_exhausted(standing: Standing, error: KEvolveError) -> tuple[Standing, Step]:
    """Decide after the author had no proposal for an ask. While others are in flight it may still
    have one later, based on their nodes."""
    standing = replace(standing, in_flight=standing.in_flight - 1, declined=standing.declined + 1)
    if standing.in_flight:
        return standing, Pause()
    standing = replace(standing, exhausted=standing.exhausted + 1)
    if standing.exhausted < EXHAUSTED_IN_A_ROW:
        return standing, GoOn()
    return standing, Stop("author exhausted", error.message)


def after_author_error(standing: Standing, error: KEvolveError) -> tuple[Standing, Step]:
    """Decide after the author failed or its proposal was not accepted. An error that a retry cannot
    fix ends the run at once; a spent budget for authors ends the search."""
    if isinstance(error, BudgetSpent):
        return replace(standing, in_flight=standing.in_flight - 1), Stop(
            "budget_spent", error.message
        )
    if isinstance(error, (AuthorUnusable, AuthorUnavailable)):
        return replace(standing, in_flight=standing.in_flight - 1), GiveUp(error)
    standing = replace(standing, author_errors=standing.author_errors + 1)
    if standing.author_errors < AUTHOR_ERRORS_IN_A_ROW:
        return standing, Again()
    return replace(standing, in_flight=standing.in_flight - 1), GiveUp(error)


def after_submit_error(standing: Standing, error: KEvolveError) -> tuple[Standing, Step]:
    """Decide after the server did not turn a proposal into a node."""
    if isinstance(error, UsageError):
        return after_author_error(standing, error)
    # others took its place in the budget: the next answer says what is left to do
    if isinstance(error, BudgetFull):
        return replace(standing, in_flight=standing.in_flight - 1), GoOn()
    if not isinstance(error, EvaluatorUnavailable):
        return replace(standing, in_flight=standing.in_flight - 1), GiveUp(error)
    standing = replace(
        standing, in_flight=standing.in_flight - 1, evaluator_errors=standing.evaluator_errors + 1
    )
    if standing.evaluator_errors < EVALUATOR_ERRORS_IN_A_ROW:
        return standing, GoOn()
    return standing, GiveUp(error)
