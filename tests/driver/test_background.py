"""Parameters searched while the bundled driver's author is being asked."""

from __future__ import annotations

import anyio
import pytest

from harness.types import Budget
from kevolve_mcp.driver import events
from kevolve_mcp.sessions import background
from kevolve_mcp.synthesis.authors import AskContext, Exhausted, Proposal

from .conftest import Runner, Steady

TUNED = {"skills": False, "tune": 0.5}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_S", 0.0)


class Slow(Steady):
    """Thinks for a while, once the start is there; then has nothing more to say if it is dry."""

    def __init__(self, *, dry: bool = False) -> None:
        super().__init__()
        self.dry = dry
        self.asked: list[AskContext] = []

    async def propose(self, ask: AskContext) -> Proposal:
        self.asked.append(ask)
        if ask.start is None:
            await anyio.sleep(0.05 if self.dry else 0.7)
            if self.dry:
                raise Exhausted("no ideas", "Read a book.")
        return await super().propose(ask)


def test_the_author_is_told_what_was_found_meanwhile(runner: Runner) -> None:
    author = Slow()
    outcome = runner.run(author, policy=TUNED, budget=Budget(evaluations=4))
    assert outcome.session.spent.evaluations == 4
    assert outcome.ending is not None
    assert outcome.session.nodes > outcome.nodes  # so many are its author's
    assert "Parameter search meanwhile: tuned n1: " in author.asked[-1].text


def test_a_dry_author_ends_the_search_without_waiting(runner: Runner) -> None:
    outcome = runner.run(Slow(dry=True), policy=TUNED, budget=Budget(evaluations=40))
    assert outcome.reason == "author exhausted"
    assert outcome.ending is not None
    assert outcome.ending.package
    remarks = [e.text for e in runner.of(events.Remark) if isinstance(e, events.Remark)]
    assert any("no ideas" in text for text in remarks)
