"""Background jobs: bounded waits, cancellation, joining, and what a killed process leaves
behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import anyio
import pytest

from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.executors.base import ProgressEvent
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import Service, jobs
from kevolve_mcp.sessions.types import SessionSpec, SubmitRequest, Text
from kevolve_mcp.settings import Settings
from kevolve_mcp.store import Store

from .conftest import Bench, kernel, killed, opened, result

pytestmark = pytest.mark.anyio


async def test_a_wait_is_bounded_and_told_about(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        job = await service.submit(SubmitRequest(session, Text(source=kernel(seconds=1.5))))
        events: list[ProgressEvent] = []
        job = await service.wait(job.id, 0.4, progress=events.append)
        assert (job.state, job.result) == ("running", None)
        assert job.eta_s is not None
        assert job.eta_s > 0
        job = await service.wait(job.id, 20, progress=events.append)
        assert result(job).node is not None
        assert {e.stage for e in events} & {"build", "verify", "time"}
        assert result(await service.wait(job.id, 0)).node == result(job).node


async def test_a_cancelled_wait_leaves_the_job_running(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        job = await service.submit(SubmitRequest(session, Text(source=kernel(seconds=0.6))))
        with anyio.move_on_after(0.1) as scope:
            await service.wait(job.id, 20)
        assert scope.cancelled_caught
        assert (await service.wait(job.id, 20)).state == "done"


async def test_cancelling_kills_the_worker_and_leaves_no_node(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        job = await service.submit(SubmitRequest(session, Text(source=kernel(seconds=60))))
        await service.wait(job.id, 0.3)
        (stopped,) = await service.cancel(session_id=session)
        assert (stopped.id, stopped.state) == (job.id, "cancelled")
        assert len(bench.executor.cancelled) == 1
        assert (await service.tree(session)).nodes == ()
        (left,) = await service.cancel(job_id=job.id)
        assert left.state == "cancelled"
        with pytest.raises(NotFound):
            await service.cancel(job_id="j99")


async def test_the_same_call_joins_the_running_job(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        request = SubmitRequest(session, Text(source=kernel(seconds=0.5)))
        first = await service.submit(request)
        assert (await service.submit(request)).id == first.id
        other = await service.submit(SubmitRequest(session, Text(source=kernel(1.1, seconds=2.5))))
        assert other.id != first.id
        ended = await service.wait_any(session, 20)
        assert ended is not None
        assert ended.id == first.id
        await service.wait(other.id, 20)
        assert await service.wait_any(session, 20) is None
    assert len(bench.executor.started) == 2


async def test_two_services_share_a_home(bench: Bench) -> None:
    mine, theirs = FakeExecutor(), FakeExecutor()
    async with bench.service(mine) as one, bench.service(theirs) as two:
        session = await opened(one, SessionSpec(bench.task()))
        assert await opened(two, SessionSpec(bench.task())) == session
        slow = await one.submit(SubmitRequest(session, Text(source=kernel(seconds=0.6))))
        quick = await two.submit(SubmitRequest(session, Text(source=kernel(1.2))))
        assert result(await two.wait(slow.id, 20)).node is not None  # of the other service
        assert result(await one.wait(quick.id, 20)).node is not None
        assert {n.id for n in (await two.tree(session)).nodes} == {"n1", "n2"}
        cached = await one.submit(SubmitRequest(session, Text(source=kernel(1.2)), parents=("n1",)))
        assert result(cached).cached
    assert (len(mine.evaluated), len(theirs.evaluated)) == (1, 1)


async def test_a_job_of_another_service_can_be_cancelled(bench: Bench) -> None:
    mine = FakeExecutor()
    async with bench.service(mine) as one, bench.service() as two:
        session = await opened(one, SessionSpec(bench.task()))
        job = await one.submit(SubmitRequest(session, Text(source=kernel(seconds=60))))
        (stopped,) = await two.cancel(job_id=job.id)
        assert stopped.state == "cancelled"
    assert len(mine.cancelled) == 1


async def test_a_job_that_kills_its_processes_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_ATTEMPTS", 1)
    _, job_id, _ = killed(bench.home / "home", bench.task().path)
    async with bench.service() as service:
        job = await service.wait(job_id, 20)
        assert job.state == "failed"
        assert job.error is not None
        assert "died each time" in job.error.message
    assert bench.executor.started == []


async def test_a_killed_process_loses_nothing_that_was_finished(bench: Bench) -> None:
    """Its job is run again by exactly one of the servers that come after it, its ask is free, its
    node is there."""
    session, job_id, ask_id = killed(bench.home / "home", bench.task().path)
    mine, theirs = FakeExecutor(), FakeExecutor()
    async with bench.service(mine) as one, bench.service(theirs) as two:
        async with anyio.create_task_group() as group:
            group.start_soon(one.wait, job_id, 20)
            group.start_soon(two.wait, job_id, 20)
        again = result(await one.wait(job_id, 0))
        assert again.node is not None
        assert (again.node.id, again.node.ask_id, again.node.hypothesis) == (
            "n2",
            ask_id,
            "slow to judge",
        )
        assert len(mine.evaluated) + len(theirs.evaluated) == 1
        assert [n.id for n in (await two.tree(session)).nodes] == ["n1", "n2"]


async def test_a_job_of_another_version_is_refused(bench: Bench) -> None:
    _, job_id, _ = killed(bench.home / "home", bench.task().path)
    with closing(sqlite3.connect(bench.home / "home" / "kevolve.db")) as database:
        database.execute('update jobs set payload = \'{"of": "yore"}\' where id = ?', (job_id[1:],))
        database.execute("update jobs set result = '{\"of\": \"yore\"}' where state = 'done'")
        database.commit()
    async with bench.service() as service:
        job = await service.wait(job_id, 20)
        assert (job.state, job.error and job.error.code) == ("failed", "conflict")
        assert job.error is not None
        assert "written by another version" in job.error.message
        assert len(await service.jobs()) == 3
        with pytest.raises(Conflict, match="another version"):
            await service.job("j1")
    assert bench.executor.started == []


async def test_a_fault_in_one_job_is_told_and_spares_the_others(bench: Bench) -> None:
    class Faulty(FakeExecutor):
        async def evaluate(self, *args: object, **options: object) -> object:  # type: ignore[override]
            raise RuntimeError("unforeseen")

    async with bench.service(Faulty()) as service:
        session = await opened(service, SessionSpec(bench.task()))
        job = await service.wait(
            (await service.submit(SubmitRequest(session, Text(source=kernel())))).id, 20
        )
        assert job.state == "failed"
        assert job.error is not None
        assert (job.error.code, job.error.message) == ("internal", "RuntimeError: unforeseen")
        assert [j.state for j in await service.jobs(session)] == ["failed", "done"]


async def test_who_only_looks_leaves_the_jobs_of_dead_processes_alone(bench: Bench) -> None:
    session, job_id, _ = killed(bench.home / "home", bench.task().path)
    async with Service(Settings(home=bench.home / "home"), looks_only=True) as service:
        assert [n.id for n in (await service.tree(session)).nodes] == ["n1"]
        await anyio.sleep(jobs.POLL_S)  # time enough for a server that works to take the job over
        (left,) = [j for j in await service.jobs(session) if j.id == job_id]
        assert (left.state, left.message) == ("running", "its process ended; it will be run again")
        with pytest.raises(Conflict, match="read-only"):
            await service.submit(SubmitRequest(session, Text(source=kernel())))
    with Store.open(bench.home / "home") as store:
        assert (store.jobs.get(job_id).attempts, store.jobs.get(job_id).state) == (1, "running")
