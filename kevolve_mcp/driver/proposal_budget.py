"""What a run may still spend on proposals: the author's allowance before it writes, and the cost
reported to the server after."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.types import Budget, Spent
from kevolve_mcp.synthesis.authors import FREE, AskAllowance, Cost

from .answers import NOTHING_SPENT, UNLIMITED


@dataclass
class ProposalBudget:
    """The session's limits of tokens, money and time. The server's count is authoritative; costs
    that it does not know yet are kept here: `unbilled`, for proposals that became no node, until
    they are reported with the next node, and `under_way`, reported with a node that is being
    evaluated.

    Several authors share what is left: each allowance is an equal part of it, so that together they
    cannot overspend.
    """

    budget: Budget = UNLIMITED
    spent: Spent = NOTHING_SPENT
    unbilled: Cost = FREE
    under_way: Cost = FREE
    _reserved: dict[int, AskAllowance] = field(default_factory=dict)
    _known_at: float = field(default_factory=time.monotonic)
    _ids: int = 0
    _telling: int = 0

    def update(self, spent: Spent) -> None:
        """Take over the server's count. Answers may arrive out of order: a lower count is older."""
        if spent.tokens >= self.spent.tokens and spent.usd >= self.spent.usd:
            self.spent, self._known_at = spent, time.monotonic()

    def used(self) -> Cost:
        """Return all tokens and money known to be used."""
        return Cost(self.spent.tokens, self.spent.usd) + self.unbilled + self.under_way

    def exhausted(self) -> str:
        """Return the limit that failed proposals have used up unknown to the server, "" for
        none."""
        known = Cost(self.spent.tokens, self.spent.usd)
        return "" if self._over(known) else self._over(known + self.unbilled)

    def spoken_for(self) -> bool:
        """Return whether nothing will be left once costs in flight are counted."""
        return bool(self._telling) and bool(self._over(self.used()))

    def _over(self, cost: Cost) -> str:
        return self.budget.exceeded(Spent(tokens=cost.tokens, usd=cost.usd)) or ""

    @property
    def settled(self) -> bool:
        """Return whether nothing is being written or counted, so that what is left is known
        exactly. (Otherwise a node may briefly count twice: in the server, and in flight here.)"""
        return not self._reserved and not self._telling

    def reserve(self, workers: int) -> tuple[int, AskAllowance]:
        """Reserve an allowance for one proposal; return a number to release it by, and the
        allowance. workers: how many may reserve at once."""
        others = list(self._reserved.values())
        parts = max(1, workers - len(others))
        used = self.used()
        tokens, usd, seconds = self.budget.tokens, self.budget.usd, self.budget.seconds
        if tokens is not None:
            tokens = max(0, tokens - used.tokens - sum(a.tokens or 0 for a in others)) // parts
        if usd is not None:
            usd = max(0.0, usd - used.usd - sum(a.usd or 0.0 for a in others)) / parts
        if seconds is not None:
            seconds = max(0.0, seconds - self.spent.seconds - (time.monotonic() - self._known_at))
        self._ids += 1
        self._reserved[self._ids] = allowance = AskAllowance(tokens, usd, seconds)
        return self._ids, allowance

    def release(self, number: int, cost: Cost) -> None:
        """Release a reservation after the proposal was written or failed, at this cost."""
        self._reserved.pop(number)
        self.unbilled += cost

    def bill(self) -> Cost:
        """Return the cost to report to the server with the next node."""
        bill, self.unbilled = self.unbilled, FREE
        self.under_way += bill
        self._telling += 1
        return bill

    def billed(self, bill: Cost, spent: Spent | None) -> None:
        """Settle a bill. spent: the server's new count; None if there was no node, so that nothing
        was counted."""
        self._telling -= 1
        # avoids a remainder of the subtraction
        self.under_way = self.under_way - bill if self._telling else FREE
        if spent is None:
            self.unbilled += bill
        else:
            self.update(spent)
