"""Asks: leased, read again, given again, ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.types import Budget, Goal
from kevolve_mcp.errors import Conflict, NotFound, UsageError
from kevolve_mcp.search import Expansion
from kevolve_mcp.sessions import asking
from kevolve_mcp.sessions.types import SessionSpec, SubmitRequest, Text
from kevolve_mcp.store import Store
from kevolve_mcp.synthesis import AskContext

from .conftest import Bench, kernel, opened, told

pytestmark = pytest.mark.anyio


async def test_a_lost_ask_is_read_again_word_for_word(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.2))
        first = (await service.next(session)).asks[0]
        await told(service, session, kernel(1.4))
        again = (await service.next(session, ask_id=first.context.id)).asks[0]
        assert again.context == first.context
        assert AskContext.parse(first.context.as_json(), first.context.text) == first.context
        await told(service, session, kernel(1.6), ask_id=first.context.id)
        assert (await service.next(session, ask_id=first.context.id)).asks[0].answered_by == "n3"


async def test_unknown_ids_teach(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        with pytest.raises(UsageError, match="not an ask id"):
            await service.next(session, ask_id="seven")
        with pytest.raises(NotFound, match="a9"):
            await service.next(session, ask_id="a9")
        with pytest.raises(NotFound) as error:
            await service.next(session[:-1] + "x")
        assert session in error.value.hint


async def test_several_asks_at_once_differ(bench: Bench) -> None:
    async with bench.service() as one, bench.service() as two:
        session = await opened(one, SessionSpec(bench.task()))
        batch = (await one.next(session, count=3)).asks + (await two.next(session, count=2)).asks
        assert [a.context.id for a in batch] == ["a1", "a2", "a3", "a4", "a5"]
        assert len({a.context.seed for a in batch}) == 5


async def test_the_ask_of_a_dead_process_is_given_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        # this pid, but started at another time
        dead = replace(asking.holder("agent"), started=1)
        with Store.open(bench.home / "home") as store:
            ask = store.asks.add(
                session, Expansion((), "none", "draft"), "text", author=dead, lease_s=900
            )
        assert (await service.next(session)).asks[0].context.id == ask.id


async def test_an_ask_that_its_author_went_on_without_is_not_given_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        draft = (await service.next(session)).asks[0].context
        await told(service, session, kernel(1.4))
        with Store.open(bench.home / "home") as store:
            store.asks.release(session, 1, author=asking.holder(""))  # as if its time were up
        following = (await service.next(session)).asks[0].context
        assert (draft.role, following.id, following.role) == ("draft", "a2", "improve")
        # it can be read and answered all the same
        assert (await service.next(session, ask_id="a1")).asks[0].context.id == "a1"


async def test_an_ask_that_is_being_evaluated_is_not_given_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await service.next(session)
        job = await service.submit(
            SubmitRequest(session, Text(source=kernel(1.4, seconds=5)), "a1")
        )
        assert (await service.next(session)).asks[0].context.id == "a2"
        await service.cancel(job_id=job.id)


async def test_each_author_has_asks_of_its_own(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        first = [
            (await service.next(session, author=name)).asks[0].context for name in ("one", "two")
        ]
        again = [(await service.next(session, author=name)).asks[0] for name in ("one", "two")]
        assert [a.context for a in again] == first
        assert all(a.repeated for a in again)
        assert [a.id for a in first] == ["a1", "a2"]
        assert "class Model: pass" in first[1].text
        # not written for it
        other = (await service.next(session, author="two", ask_id="a1")).asks[0].context
        assert "class Model: pass" in other.text
        assert "only referred to" not in other.text


async def test_the_search_ends_with_a_reason(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(
            service,
            SessionSpec(bench.task(), goal=Goal("speedup", 1.5), budget=Budget(evaluations=2)),
        )
        await told(service, session, kernel(1.6))
        batch = await service.next(session)
        assert (batch.asks, batch.ended) == ((), "goal_reached")
        assert "1.6" in batch.ended_detail


async def test_the_budget_is_not_overdrawn_by_open_asks(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=2)))
        batch = await service.next(session, count=4)
        assert len(batch.asks) == 2
        others = await service.next(session, author="somebody else")
        assert (others.asks, others.ended) == ((), "")
        # who wants another one has put the first two aside
        assert (await service.next(session, fresh=True)).asks


async def test_the_context_stays_inside_its_budget(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        for step in range(5):
            await told(service, session, kernel(1.1 + step / 10, extra="#" * 3000))
        ask = (await service.next(session, max_tokens=2000)).asks[0]
        assert len(ask.context.text) <= 2000 * 4
        assert ask.knowledge


async def test_a_finished_session_is_not_asked(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        from .conftest import finish

        await finish(service, session, discard=True)
        with pytest.raises(Conflict, match="abandoned"):
            await service.next(session)
