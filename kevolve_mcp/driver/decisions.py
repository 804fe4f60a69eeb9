"""The loop's decisions, apart from its effects. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from harness.types import Budget, Spent
from kevolve_mcp.errors import BudgetFull, EvaluatorUnavailable, KEvolveError, UsageError
from kevolve_mcp.synthesis.authors import AuthorUnavailable, AuthorUnusable, BudgetSpent

# an author without an idea for one parent may have one for the next that the policy picks
EXHAUSTED_IN_A_ROW = 8
AUTHOR_ERRORS_IN_A_ROW = 3
EVALUATOR_ERRORS_IN_A_ROW = 3
IDLE_IN_A_ROW = 20


@dataclass(frozen=True)
class Standing:
    """What the decisions depend on. in_flight: asks that are being answered; declined: asks that
    the author had nothing for, which stay open on the server; the other counts are since the last
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
    """Let the author answer the same ask again: nobody else will, and an ask that stays open is
    lost to the budget."""


@dataclass(frozen=True)
class Pause:
    """Nothing to take now: wait until something is finished."""


@dataclass(frozen=True)
class Stop:
    """End the search and finish the session with what it has."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class GiveUp:
    """End the run, leave the session open: going on later may succeed."""

    error: KEvolveError


Step: TypeAlias = GoOn | Again | Pause | Stop | GiveUp


def before_asking(standing: Standing, budget: Budget, spent: Spent) -> Step:
    """Whether one more ask fits the evaluation budget, those under way counted: two authors at work
    must not overspend it.

    With nothing under way the server is asked in any case: it knows best when the search is over.
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
    """A node was inserted: everything works."""
    return Standing(standing.nodes + 1, standing.in_flight - 1, standing.declined)


def after_batch(standing: Standing, asks: int, ended: str, detail: str) -> tuple[Standing, Step]:
    """What session_next's answer means. Without an ask and without an end, what the budget allows
    is asked for already: by this run, by somebody else, or in asks that this author had nothing
    for."""
    if ended:
        return standing, Stop(ended, detail)
    if asks:
        return standing, GoOn()
    if standing.in_flight:
        return standing, Pause()
    if standing.declined:
        return standing, Stop(
            "author exhausted", "the author has nothing for the asks that the budget still allows"
        )
    standing = replace(standing, idle=standing.idle + 1)
    if standing.idle < IDLE_IN_A_ROW:
        return standing, Pause()
    return standing, Stop("idle", "the server has no ask to give and nothing is under way")


def after_exhausted(standing: Standing, error: KEvolveError) -> tuple[Standing, Step]:
    """The author had nothing for this ask. While something is under way that means little: its node
    may be what the author can go on from."""
    standing = replace(standing, in_flight=standing.in_flight - 1, declined=standing.declined + 1)
    if standing.in_flight:
        return standing, Pause()
    standing = replace(standing, exhausted=standing.exhausted + 1)
    if standing.exhausted < EXHAUSTED_IN_A_ROW:
        return standing, GoOn()
    return standing, Stop("author exhausted", error.message)


def after_author_error(standing: Standing, error: KEvolveError) -> tuple[Standing, Step]:
    """The author failed, or what it proposed was not accepted. What another try cannot fix ends the
    run at once, and where nothing is left to pay the author with, the search."""
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
    """The server did not turn a proposal into a node."""
    if isinstance(error, UsageError):
        return after_author_error(standing, error)
    # others took its place: what is left to do, the next answer says
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
