"""What is charged to a session, and going on where its budget is spent."""

from __future__ import annotations

import pytest

from harness.types import Budget
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict
from kevolve_mcp.sessions.types import KernelRequest, SessionSpec, Text

from .conftest import Bench, finish, kernel, opened, told

pytestmark = pytest.mark.anyio


async def test_only_nodes_are_charged_as_evaluations(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=2)))
        for call in (service.compile, service.check, service.profile):
            job = await call(KernelRequest(Text(source=kernel(1.2)), session))
            await service.wait(job.id, 20)
        assert (await service.next(session)).session.spent.evaluations == 0
        # it was profiled, so the store answers; as a node it counts all the same
        await told(service, session, kernel(1.2))
        assert (await service.next(session)).session.spent.evaluations == 1


async def test_another_budget_lets_a_spent_session_go_on(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=1)))
        await told(service, session, kernel(1.2))
        assert (await service.next(session)).ended == "budget_spent"
        more = await service.next(session, budget=Budget(evaluations=2))
        assert more.asks
        assert more.session.budget == Budget(evaluations=2)
        await told(service, session, kernel(1.3), ask_id=more.asks[0].context.id)
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert "Budget spent: 2 of 2 evaluations" in job.result.reason
        with pytest.raises(Conflict):
            await service.next(session, budget=Budget(evaluations=9))


async def test_an_equal_node_is_no_new_best(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        assert (await told(service, session, kernel(1.2))).new_best
        assert not (await told(service, session, kernel(1.2) + "# the same\n")).new_best
        assert (await told(service, session, kernel(1.4))).new_best
