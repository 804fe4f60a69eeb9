"""The author: whoever applies the universal operator O to an ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from kevolve_mcp.errors import Conflict
from kevolve_mcp.synthesis.ask import AskContext


@dataclass(frozen=True)
class Proposal:
    """The answer to an ask, in the arguments of kernel_submit. predicted_speedup: of F against the (first) parent, 1.2 = 20 %
    faster; None when the author does not predict."""

    source: str
    language: str
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""


class Exhausted(Conflict):
    """The author has nothing left to propose for this ask; the hint says what would give it more."""

    code = "author_exhausted"


class Author(ABC):
    """Answers asks.

    Concurrency: `propose` may be awaited for several asks at once; an author keeps no state that a repeated call would need,
    so the same ask gives the same kind of answer after a restart. Ownership: `close` releases what the author opened and may be
    called twice. Failure: Exhausted when nothing is left; other KEvolveErrors are reported and the ask stays open. A proposal
    carries a whole candidate file; whether it is right is decided by evaluation, never by the author.
    """

    name: ClassVar[str]

    @abstractmethod
    async def propose(self, ask: AskContext) -> Proposal:
        """The next candidate for this ask. Raises Exhausted."""

    async def close(self) -> None:
        """Release connections and processes; nothing by default."""
        return
