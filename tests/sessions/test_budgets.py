"""What is charged to a session, and going on where its budget is spent."""

from __future__ import annotations

import anyio
import pytest

from harness.types import Budget
from kevolve_mcp import api
from kevolve_mcp.errors import BudgetFull, Conflict
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import Service, asking
from kevolve_mcp.sessions.types import KernelRequest, SessionSpec, SubmitRequest, Text

from .conftest import Bench, finish, finished, kernel, opened, told

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


def handed_in(session: str, speedup: float, **markers: object) -> SubmitRequest:
    return SubmitRequest(session, Text(source=kernel(speedup, **markers)))


async def test_a_spent_budget_takes_no_further_node(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=1)))
        for speedup in (1.2, 1.3):
            # profiled for this session: as a node it would be charged
            job = await service.profile(KernelRequest(Text(source=kernel(speedup)), session))
            await service.wait(job.id, 20)
        await told(service, session, kernel(1.2))
        for speedup in (1.3, 1.4):
            with pytest.raises(BudgetFull, match="1 of 1 evaluations are spent") as refused:
                await service.submit(handed_in(session, speedup))
            assert [each.verb for each in refused.value.actions] == ["finish", "next_ask"]
        assert len((await service.tree(session)).nodes) == 1


async def test_what_is_known_costs_nothing_and_needs_no_place(bench: Bench) -> None:
    async with bench.service() as service:
        first = await opened(service, SessionSpec(bench.task()))
        await told(service, first, kernel(1.2))
        spec = SessionSpec(bench.task(), budget=Budget(evaluations=1), new=True)
        session = await opened(service, spec)
        await told(service, session, kernel(1.4))
        # that session paid for it
        found = await told(service, session, kernel(1.2))
        assert found.cached
        assert found.spent is not None
        assert found.spent.evaluations == 1
        again = await told(service, session, kernel(1.4))
        assert again.node is not None
        assert again.node.id == "n1"
    # who takes up the session knows nothing of the environment yet
    async with bench.service(FakeExecutor()) as service:
        again = await told(service, session, kernel(1.4))
        assert again.node is not None
        assert again.node.id == "n1"


async def test_what_is_being_measured_holds_its_place(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=2)))
        slow = [handed_in(session, 1.2 + i / 10, seconds=60) for i in range(2)]
        jobs = [await service.submit(each) for each in slow]
        with pytest.raises(BudgetFull, match=r"0 of 2 evaluations are spent, .*j2, j3") as refused:
            await service.submit(handed_in(session, 1.5))
        assert [each.verb for each in refused.value.actions] == ["wait", "finish"]
        # the same call joins its job
        assert (await service.submit(slow[0])).id == jobs[0].id
        batch = await service.next(session)
        assert (batch.asks, batch.ended) == ((), "")
        await service.cancel(job_id=jobs[0].id)
        await told(service, session, kernel(1.5))
        with pytest.raises(BudgetFull, match="1 of 2 evaluations are spent, and the rest"):
            await service.submit(handed_in(session, 1.6))
        await service.cancel(session_id=session)


async def test_two_services_let_in_no_more_than_the_budget_has(bench: Bench) -> None:
    async with bench.service() as one, bench.service() as two:
        session = await opened(one, SessionSpec(bench.task(), budget=Budget(evaluations=3)))
        refused: list[str] = []

        async def hand_in(service: Service, speedup: float) -> None:
            try:
                await finished(
                    service, await service.submit(handed_in(session, speedup, seconds=0.3))
                )
            except BudgetFull as error:
                refused.append(error.message)

        async with anyio.create_task_group() as group:
            for i in range(4):
                group.start_soon(hand_in, one, 1.2 + i / 10)
                group.start_soon(hand_in, two, 1.25 + i / 10)
        assert len(refused) == 5
        assert len((await one.tree(session)).nodes) == 3


async def test_an_ask_whose_lease_ran_out_takes_no_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), budget=Budget(evaluations=1)))
        monkeypatch.setattr(asking, "LEASE_S", 0.05)
        late = (await service.next(session, author="late")).asks[0].context.id
        await anyio.sleep(0.1)
        assert (await service.next(session, author="other")).asks
        await anyio.sleep(0.1)
        source = Text(source=kernel(1.2, seconds=60))
        await service.submit(SubmitRequest(session, source, ask_id=late, author="late"))
        # its answer does, also after the lease
        assert not (await service.next(session, author="other")).asks
        await service.cancel(session_id=session)
        assert (await service.next(session, author="other")).asks
        await told(service, session, kernel(1.3))
