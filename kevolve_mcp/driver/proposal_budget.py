"""What a run may still spend on proposals, told to the author before it writes and to the server
after."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.types import Budget, Spent
from kevolve_mcp.synthesis.authors import FREE, AskAllowance, Cost

from .answers import NOTHING_SPENT, UNLIMITED


@dataclass
class ProposalBudget:
    """The session's limits of tokens, money and time. The server's count is the truth; what it does
    not know yet is kept here: `unbilled`, used for proposals that became no node, until the next
    node carries it along, and `under_way`, told with a node that is being evaluated.

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
        """The server's count. Answers may overtake each other: one with less is an older one."""
        if spent.tokens >= self.spent.tokens and spent.usd >= self.spent.usd:
            self.spent, self._known_at = spent, time.monotonic()

    def used(self) -> Cost:
        """Tokens and money in all, as far as anybody knows."""
        return Cost(self.spent.tokens, self.spent.usd) + self.unbilled + self.under_way

    def exhausted(self) -> str:
        """The limit that failed proposals have used up without the server's knowing; "" while there
        is none."""
        known = Cost(self.spent.tokens, self.spent.usd)
        return "" if self._over(known) else self._over(known + self.unbilled)

    def spoken_for(self) -> bool:
        """Whether nothing will be left once what is under way is counted."""
        return bool(self._telling) and bool(self._over(self.used()))

    def _over(self, cost: Cost) -> str:
        return self.budget.exceeded(Spent(tokens=cost.tokens, usd=cost.usd)) or ""

    @property
    def settled(self) -> bool:
        """Whether nothing is being written or counted, so that what is left is exactly known.
        (Before, a node may be counted twice for a moment: by the server, and as under way here.)"""
        return not self._reserved and not self._telling

    def reserve(self, workers: int) -> tuple[int, AskAllowance]:
        """What one proposal may cost, and a number to release it under. workers: how many may ask
        for one at once."""
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
        """The proposal is written, or failed; it cost so much."""
        self._reserved.pop(number)
        self.unbilled += cost

    def bill(self) -> Cost:
        """What to tell the server with the next node."""
        bill, self.unbilled = self.unbilled, FREE
        self.under_way += bill
        self._telling += 1
        return bill

    def billed(self, bill: Cost, spent: Spent | None) -> None:
        """The server counted it: its count is now `spent`; None: there was no node, and nothing was
        counted."""
        self._telling -= 1
        # no rest of a subtraction
        self.under_way = self.under_way - bill if self._telling else FREE
        if spent is None:
            self.unbilled += bill
        else:
            self.update(spent)
