"""The author: whoever applies the universal operator O to an ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, KEvolveError, Unavailable, UsageError
from kevolve_mcp.synthesis.ask import AskContext


@dataclass(frozen=True)
class Cost:
    """What writing something used. tokens: read and written together, as the provider counts
    them."""

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
    """The answer to an ask, in the arguments of kernel_submit. predicted_speedup: of F against the
    (first) parent, 1.2 = 20 % faster; None when the author does not predict. cost: what it took,
    failed tries included."""

    source: str
    language: str
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    cost: Cost = FREE


class Exhausted(Conflict):
    """The author has nothing left to propose for this ask; the hint says what would give it
    more."""

    code = "author_exhausted"


class AuthorError(KEvolveError):
    """This time there is no proposal; the same ask may be answered when it is put again. cost: what
    was used up all the same.

    AuthorError
    ├── AuthorUnusable      asking again is pointless until somebody fixes it: no key, unknown
    │                       model, no such program
    ├── AuthorUnavailable   the provider did not answer for as long as was waited: resuming later
    │                       may succeed
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
    """Answers asks.

    Concurrency: `propose` may be awaited for several asks at once; an author keeps no state that a
    repeated call would need, so the same ask gives the same kind of answer after a restart.
    Ownership: `close` releases what the author opened and may be called twice. Failure: Exhausted
    when nothing is left; other KEvolveErrors are reported and the ask stays open. A proposal
    carries a whole candidate file; whether it is right is decided by evaluation, never by the
    author.
    """

    name: ClassVar[str]

    @abstractmethod
    async def propose(self, ask: AskContext) -> Proposal:
        """The next candidate for this ask. Raises Exhausted."""

    async def close(self) -> None:
        """Release connections and processes; nothing by default."""
        return


def starting_kernel(ask: AskContext) -> Proposal | None:
    """The answer to an ask of role "start": the kernel that it brings, as it is. None for every
    other ask."""
    if ask.role != "start" or ask.start is None:
        return None
    why = f"{ask.start.origin}. {ask.start.note}".strip()
    return Proposal(ask.start.source, ask.language, "the starting kernel as it is", None, why)
