"""The author, which applies the universal operator O to an ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, KEvolveError, Unavailable, UsageError
from kevolve_mcp.synthesis.ask import AskContext


@dataclass(frozen=True)
class Cost:
    """The cost of writing. tokens: input and output together, as the provider counts them."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.tokens - other.tokens, self.usd - other.usd)

    def __bool__(self) -> bool:
        return bool(self.tokens or self.usd)


FREE = Cost()


@dataclass(frozen=True)
class Proposal:
    """The answer to an ask, as the arguments of kernel_submit. predicted_speedup: F against the
    first parent's, 1.2 = 20 % faster; None without a prediction. cost: includes failed tries."""

    source: str
    language: str
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    cost: Cost = FREE


class Exhausted(Conflict):
    """The author has nothing left to propose for this ask; the hint says what would help."""

    code = "author_exhausted"


class AuthorError(KEvolveError):
    """There is no proposal this time; the same ask may be answered on a retry. cost: what was used
    nevertheless.

    AuthorError
    ├── AuthorUnusable      a retry is pointless until the user fixes the cause: no key, unknown
    │                       model, no such program
    ├── AuthorUnavailable   the provider did not answer within the waiting time: resuming later may
    │                       succeed
    └── BudgetSpent         what is left of the session's tokens, money or time does not pay for a
                            proposal
    """

    code = "author_failed"
    retryable = True

    def __init__(self, message: str, hint: str = "", cost: Cost = FREE, *actions: Action) -> None:
        super().__init__(message, hint, *actions)
        self.cost = cost


class AuthorUnusable(AuthorError, UsageError):
    code = "author_unusable"
    retryable = False


class AuthorUnavailable(AuthorError, Unavailable):
    code = "author_unavailable"


class BudgetSpent(AuthorError, Conflict):
    code = "author_budget"
    retryable = False


class Author(ABC):
    """An author answers asks.

    Concurrency: `propose` may be awaited for several asks at once. An author keeps no state that a
    repeated call would need, so the same ask gets the same kind of answer after a restart.
    Ownership: `close` releases what the author opened and may be called twice. Failure: Exhausted
    when nothing is left; other KEvolveErrors are reported and the ask stays open. A proposal
    contains a whole candidate file; the evaluation, never the author, decides whether it is
    correct.
    """

    name: ClassVar[str]

    @abstractmethod
    async def propose(self, ask: AskContext) -> Proposal:
        """Propose the next candidate for this ask. Raises Exhausted."""

    async def close(self) -> None:
        """Release connections and processes; nothing by default."""
        return


def starting_kernel(ask: AskContext) -> Proposal | None:
    """Return the answer to an ask of role "start", which is its own kernel unchanged; None for
    other asks."""
    if ask.role != "start" or ask.start is None:
        return None
    why = f"{ask.start.origin}. {ask.start.note}".strip()
    return Proposal(ask.start.source, ask.language, "the starting kernel unchanged", None, why)
