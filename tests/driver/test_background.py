"""Parameters searched while the bundled driver's author is being asked."""

from __future__ import annotations

import anyio
import pytest

from harness.types import Budget
from kevolve_mcp.driver import events
from kevolve_mcp.sessions import background
from kevolve_mcp.sessions.background_work import Setting
from kevolve_mcp.sessions.shared import Shared
from kevolve_mcp.sessions.types import SearchOptions
from kevolve_mcp.synthesis.authors import AskContext, Exhausted, Proposal

from .conftest import Runner, Steady

TUNED = SearchOptions(skills=False, tune=0.5)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_S", 0.0)


class Slow(Steady):
    """Thinks until a setting was measured, once the start is there; has nothing to say if it is
    dry."""

    def __init__(self, measured: anyio.Event | None = None) -> None:
        super().__init__()
        self.measured = measured
        self.asked: list[AskContext] = []

    async def propose(self, ask: AskContext) -> Proposal:
        self.asked.append(ask)
        if ask.start is None:
            if self.measured is None:
                await anyio.sleep(0.05)
                raise Exhausted("no ideas", "Read a book.")
            with anyio.fail_after(30):
                await self.measured.wait()
        return await super().propose(ask)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> anyio.Event:
    """Set once a setting was measured. A start does not count."""
    found, step = anyio.Event(), background.Background._step
    claim, claimed = Setting.claim, list[bool]()

    async def noted(self: Setting, shared: Shared) -> bool:
        claimed.append(await claim(self, shared))
        return claimed[-1]

    async def watched(self: background.Background, session: str) -> bool:
        again = await step(self, session)
        if again and any(claimed):
            found.set()
        return again

    monkeypatch.setattr(Setting, "claim", noted)
    monkeypatch.setattr(background.Background, "_step", watched)
    return found


def test_the_author_is_told_what_was_found_meanwhile(runner: Runner, measured: anyio.Event) -> None:
    author = Slow(measured)
    outcome = runner.run(author, search=TUNED, budget=Budget(evaluations=6))
    # one more where a setting was under way when the author asked
    assert outcome.session.spent.evaluations in (6, 7)
    assert outcome.ending is not None
    assert outcome.session.nodes > outcome.nodes  # so many are its author's
    assert any("Parameter search meanwhile: tuned n1: " in ask.text for ask in author.asked)


def test_a_dry_author_ends_the_search_without_waiting(runner: Runner) -> None:
    outcome = runner.run(Slow(), search=TUNED, budget=Budget(evaluations=40))
    assert outcome.reason == "author exhausted"
    assert outcome.ending is not None
    assert outcome.ending.package
    remarks = [e.text for e in runner.of(events.Remark) if isinstance(e, events.Remark)]
    assert any("no ideas" in text for text in remarks)
