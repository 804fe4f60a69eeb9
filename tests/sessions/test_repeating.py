"""Measuring again: new samples join those of the same key, and a node has the figures of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.types import Evaluation, Policy
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError
from kevolve_mcp.sessions import Service
from kevolve_mcp.sessions.types import KernelRequest, SessionSpec, Text

from .conftest import Bench, finished, kernel, opened, result, told

pytestmark = pytest.mark.anyio
SOURCE = kernel(1.5)


async def profiled(service: Service, session: str, **arguments: object) -> api.Evaluated:
    request = KernelRequest(Text(source=SOURCE), session, **arguments)  # type: ignore[arg-type]
    return result(await finished(service, await service.profile(request)))


async def test_a_repeated_profile_joins_what_was_measured(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        first = await profiled(service, session)
        again = await profiled(service, session, repeat=True)
        assert not again.cached
        assert bench.executor.requests[-1].earlier.processes == 3
        assert first.evaluation.interval is not None
        assert again.evaluation.interval is not None
        assert again.evaluation.interval[0] > first.evaluation.interval[0]
        known = await profiled(service, session)
        assert known.cached
        assert known.evaluation.id == again.evaluation.id


async def test_an_effort_measures_only_what_is_missing(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await profiled(service, session)
        await profiled(service, session, effort=4)
        request = bench.executor.requests[-1]
        assert (request.effort, request.earlier.processes) == (3.0, 3)
        count = len(bench.executor.requests)
        assert (await profiled(service, session, effort=4)).cached
        assert (await profiled(service, session, effort=2)).cached
        assert len(bench.executor.requests) == count
        with pytest.raises(UsageError, match="effort 9"):
            await profiled(service, session, effort=9)


async def test_a_node_that_is_submitted_again_has_all_samples(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        first = await told(service, session, SOURCE)
        other = await told(service, session, SOURCE, repeat=True)
        assert first.node is not None
        assert other.node is not None
        assert (other.node.id, other.cached) == ("n1", False)
        assert other.node.evaluation_id == other.evaluation.id != first.node.evaluation_id
        assert other.node.interval == other.evaluation.interval != first.node.interval
        tree = await service.tree(session)
        assert [n.evaluation_id for n in tree.nodes] == [other.evaluation.id]
        assert tree.session is not None
        assert tree.session.spent.evaluations == 1


async def test_another_session_does_not_change_a_node(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        first = await told(service, session, SOURCE)
        other = await opened(service, SessionSpec(bench.task(), new=True))
        await told(service, other, SOURCE, repeat=True)
        strict = await opened(
            service, SessionSpec(bench.task(), policy=Policy(library_calls="reject"), new=True)
        )
        await told(service, strict, SOURCE, repeat=True)
        assert bench.executor.requests[-1].earlier.processes == 0  # another key
        (node,) = (await service.tree(session)).nodes
        assert node.evaluation_id == first.evaluation.id


async def test_a_failure_is_looked_at_again_without_joining(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        failing = kernel(status="crashed")
        await told(service, session, failing)
        again = await told(service, session, failing, repeat=True)
        assert (again.evaluation.status, again.cached) == ("crashed", False)
        assert bench.executor.requests[-1].earlier.processes == 0


async def test_what_was_proved_wrong_once_stays_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, statuses = bench.executor.evaluate, ["correct", "incorrect", "correct"]

    async def evaluate(*arguments: Any, **named: Any) -> Evaluation:
        found = await plain(*arguments, **named)
        status = statuses.pop(0)
        return found if status == found.status else replace(found, status=status, cases=())

    monkeypatch.setattr(bench.executor, "evaluate", evaluate)
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        for expected in ("correct", "incorrect", "incorrect"):
            await told(service, session, SOURCE, repeat=expected != "correct")
            (node,) = (await service.tree(session)).nodes
            assert node.status == expected
        assert (await profiled(service, session)).evaluation.status == "incorrect"
