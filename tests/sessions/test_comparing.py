"""Kernels against each other, and what a finish makes of it."""

from __future__ import annotations

import pytest

from harness.types import ComparisonRequest, HeadToHead, Task
from kevolve_mcp import api
from kevolve_mcp.errors import Unavailable, UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import Service
from kevolve_mcp.sessions.types import CompareRequest, SessionSpec, Text

from .conftest import Bench, finish, finished, kernel, opened, told

pytestmark = pytest.mark.anyio


async def compared(service: Service, request: CompareRequest) -> api.Compared:
    job = await finished(service, await service.compare(request))
    assert isinstance(job.result, api.Compared), job.error
    return job.result


async def test_nodes_and_texts_are_compared_without_a_node(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.5))
        await told(service, session, kernel(1.2))
        found = await compared(
            service,
            CompareRequest(
                Text(source=kernel(1.8)),
                session,
                against=("n1", "n2", Text(source=kernel(1.8, "# b"))),
            ),
        )
        assert found.labels == ("kernel 1", "n1", "n2", "kernel 4")
        first = {
            d.second: (round(d.ratio, 3), d.verdict) for d in found.duels if d.first == "kernel 1"
        }
        assert first == {
            "n1": (1.2, "faster"),
            "n2": (1.5, "faster"),
            "kernel 4": (1.0, "equivalent"),
        }
        assert (
            next(d for d in found.duels if (d.first, d.second) == ("n1", "n2")).verdict == "faster"
        )
        assert (
            next(d for d in found.duels if (d.first, d.second) == ("n2", "kernel 4")).verdict
            == "slower"
        )
        assert len((await service.tree(session)).nodes) == 2
        view = await service.tree(session, evaluation_id=found.evaluations[0].id)
        assert "compare" in view.heading


async def test_who_is_not_correct_takes_no_part(bench: Bench) -> None:
    async with bench.service() as service:
        request = CompareRequest(
            Text(),
            task=bench.task(),
            against=(Text(source=kernel(1.4)), Text(source=kernel(status="crashed"))),
        )
        found = await compared(service, request)
        assert [e.status for e in found.evaluations] == ["correct", "crashed"]
        assert found.duels == ()


async def test_what_cannot_be_compared_is_refused_with_the_reason(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.5))
        one = Text(source=kernel(1.5))
        for against, told_ in (
            (("n1",), "same text"),
            ((), "1 kernels were given"),
            (tuple(Text(source=kernel(1 + i / 10, "# x")) for i in range(8)), "9 kernels"),
        ):
            with pytest.raises(UsageError, match=told_):
                await service.compare(CompareRequest(one, session, against=against))
        with pytest.raises(UsageError, match="no session"):
            await service.compare(CompareRequest(one, task=bench.task(), against=("n1",)))
        with pytest.raises(UsageError, match="effort 100"):
            await service.compare(
                CompareRequest(one, session, against=(Text(source=kernel()),), effort=100)
            )


async def test_a_comparison_is_paid_for(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.5, seconds=0.1))
        before = (await service.tree(session)).session
        await compared(
            service, CompareRequest(Text(source=kernel(1.4, seconds=0.2)), session, against=("n1",))
        )
        after = (await service.tree(session)).session
        assert before is not None
        assert after is not None
        assert after.spent.device_seconds > before.spent.device_seconds
        assert after.spent.evaluations == before.spent.evaluations


class Busy(FakeExecutor):
    """Compares nothing until it is told to."""

    able = False

    async def compare(
        self,
        task: Task,
        request: ComparisonRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> HeadToHead:
        if not self.able:
            raise Unavailable("nothing is timed here", "Elsewhere.")
        return await super().compare(task, request, target, progress=progress)


async def test_the_finish_confirms_who_won_head_to_head(bench: Bench) -> None:
    executor = Busy()
    async with bench.service(executor) as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.52, compared=1.5))
        await told(service, session, kernel(1.51, compared=1.7))
        await told(service, session, kernel(1.2))
        executor.able = True
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.id == "n2"
        assert [(d.first, d.second, d.verdict) for d in job.result.contest] == [
            ("n2", "n1", "faster")
        ]
        assert [len(r.candidates) for r in executor.compared] == [2]  # n3 is clearly slower


async def test_who_lost_in_the_search_is_not_compared_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.52, compared=1.5))
        await told(service, session, kernel(1.51, compared=1.7))
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.id == "n2"
        assert job.result.node.met is not None
        assert job.result.contest == ()
        assert len(bench.executor.compared) == 1


async def test_who_is_not_above_what_is_assured_of_the_best_does_not_meet_it(bench: Bench) -> None:
    """All three intervals have something in common: 1 % on either side."""
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.5))
        await told(service, session, kernel(1.48))
        assert len(bench.executor.compared) == 0
        await told(service, session, kernel(1.49))
        assert len(bench.executor.compared) == 1
        best = (await service.tree(session)).session.best
        assert best is not None
        assert best.id == "n1"


async def test_equal_contenders_keep_their_order_and_meet_once(bench: Bench) -> None:
    """One that was not told apart from the best is not the best, however high its figure is."""
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.51))
        await told(service, session, kernel(1.52))
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.id == "n1"
        assert job.result.contest == ()
        assert job.result.contest_note == (
            "Equal to n1 head-to-head in the search, and not timed again: n2."
        )
        assert len(bench.executor.compared) == 1


async def test_a_finish_survives_a_comparison_that_cannot_be(bench: Bench) -> None:
    async with bench.service(Busy()) as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.51))
        await told(service, session, kernel(1.52))
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert (
            "could not be timed against each other (nothing is timed here)"
            in job.result.contest_note
        )


async def test_the_new_best_is_the_one_of_which_most_is_known(bench: Bench) -> None:
    """Alike in two decimals, and one of them nearer to certain."""
    async with bench.service(Busy()) as service:
        session = await opened(service, SessionSpec(bench.task()))
        assert (await told(service, session, kernel(1.5, noise=0.05))).new_best
        surer = await told(service, session, kernel(1.501))
        assert surer.best is not None
        assert (surer.best.id, surer.new_best) == ("n2", True)
        lucky = await told(service, session, kernel(1.6, noise=0.1))
        assert lucky.best is not None
        assert (lucky.best.id, lucky.new_best) == ("n2", False)
