"""Candidates told: the store answers, the evaluator fails, parents and asks are checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kevolve_mcp.errors import NotFound, UsageError
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions.types import KernelRequest, SessionSpec, SubmitRequest, Text

from .conftest import Bench, finished, kernel, opened, result, told

pytestmark = pytest.mark.anyio


async def test_an_equal_key_answers_from_the_store(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        profiled = result(
            await finished(
                service,
                await service.profile(KernelRequest(Text(source=kernel()), session_id=session)),
            )
        )
        assert profiled.node is None
        assert not profiled.cached
        job = await service.submit(SubmitRequest(session, Text(source=kernel())))
        assert (job.id, job.state) == ("", "done")
        assert result(job).cached
        again = result(await service.submit(SubmitRequest(session, Text(source=kernel()))))
        assert again.node is not None
        assert again.node.id == "n1"
    assert len(bench.executor.evaluated) == 1


async def test_what_was_timed_briefly_is_timed_again_where_it_is_not_far_behind(
    bench: Bench,
) -> None:
    behind = kernel(speedup=0.5, signals="timed_briefly")
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(speedup=2.0))
        await told(service, session, behind)
        best = (await service.tree(session)).nodes[0]
        assert best.interval is not None
        assert [r.best for r in bench.executor.requests] == [0.0, best.interval[0]]
        assert (await told(service, session, behind)).cached
        await finished(
            service, await service.profile(KernelRequest(Text(source=behind), session_id=session))
        )
        # who asks for figures has no best to lag behind
        assert [r.best for r in bench.executor.requests[2:]] == [0.0]


async def test_another_evaluator_judges_anew_and_leaves_the_old_verdict_readable(
    bench: Bench,
) -> None:
    newer = FakeExecutor()
    newer.environment = replace(
        newer.environment, toolchain=f"{newer.environment.toolchain}, evaluator 2"
    )
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        request = KernelRequest(Text(source=kernel()), session_id=session)
        first = result(await finished(service, await service.profile(request)))
        await told(service, session, kernel())
    async with bench.service(newer) as service:
        again = result(await finished(service, await service.profile(request)))
        assert not again.cached
        assert again.evaluation.id != first.evaluation.id
        assert (await service.tree(session)).nodes[0].fitness == first.evaluation.fitness
    assert len(bench.executor.evaluated) == len(newer.evaluated) == 1


async def test_a_check_is_not_answered_by_a_compile(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        request = KernelRequest(Text(source=kernel(status="incorrect")), session_id=session)
        assert (
            result(await finished(service, await service.compile(request))).evaluation.status
            == "correct"
        )
        checked = result(await finished(service, await service.check(request)))
        assert checked.evaluation.status == "incorrect"
        assert checked.evaluation.fitness == 0
        assert checked.knowledge


async def test_a_kernel_is_checked_without_a_session(bench: Bench) -> None:
    async with bench.service() as service:
        request = KernelRequest(Text(source=kernel()), task=bench.task())
        checked = result(await finished(service, await service.check(request)))
        assert (checked.session_id, checked.evaluation.fitness) == ("", None)
        with pytest.raises(UsageError, match="no task was given"):
            await service.check(KernelRequest(Text(source=kernel())))


async def test_the_evaluator_is_tried_three_times(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        assert (await told(service, session, kernel(unavailable=2))).evaluation.status == "correct"
        job = await finished(
            service,
            await service.submit(SubmitRequest(session, Text(source=kernel(unavailable=3)))),
        )
        assert job.state == "failed"
        assert job.error is not None
        assert (job.error.code, job.error.retryable) == ("evaluator_unavailable", True)
        view = await service.tree(session)
        assert len(view.nodes) == 1
        assert (await told(service, session, kernel(unavailable=3))).evaluation.status == "correct"


async def test_failures_are_nodes_with_signals(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        for status in ("build_failed", "crashed", "timed_out", "incorrect"):
            found = await told(service, session, kernel(status=status))
            assert found.node is not None
            assert (found.node.status, found.node.fitness) == (status, 0.0)
            assert found.node.signals
        broken = await told(service, session, "class ModelNew(:\n")
        assert broken.evaluation.status == "invalid"


async def test_root_is_assumed_and_said(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        first = await told(service, session, kernel(1.5))
        assert first.assumed_root
        child = await told(service, session, kernel(1.2), parents=("n1",))
        assert not child.assumed_root
        assert child.node is not None
        assert "regressed" in child.node.signals
        assert child.node.versus_parent == pytest.approx(0.8)
        root = await told(service, session, kernel(1.3), parents=("n0",))
        assert root.node is not None
        assert root.node.parents == ()


async def test_other_parameters_of_a_known_text_descend_from_it(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.5, extra='PARAMS = {"A": 1}'))
        await told(service, session, kernel(1.4, extra='PARAMS = {"A": 1}'))
        varied = await told(service, session, kernel(1.5, extra='PARAMS = {"A": 2}'))
        assert varied.node is not None
        assert varied.node.parents == ("n1",)
        assert not varied.assumed_root


async def test_wrong_arguments_teach(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        ask = (await service.next(session)).asks[0].context
        with pytest.raises(UsageError, match="needs a kernel"):
            await service.submit(SubmitRequest(session, ask_id=ask.id))
        with pytest.raises(NotFound, match="n7"):
            await service.submit(SubmitRequest(session, Text(source=kernel()), parents=("n7",)))
        with pytest.raises(UsageError, match="not absolute"):
            await service.submit(SubmitRequest(session, Text(path="kernel.py")))
        with pytest.raises(UsageError, match="is a file"):
            await service.submit(SubmitRequest(session, Text(source="kernel.py")))
        (bench.home / "kernel.py").write_text(kernel())
        with pytest.raises(UsageError, match=r"near: kernel\.py") as error:
            await service.submit(SubmitRequest(session, Text(path=str(bench.home / "kernle.py"))))
        assert "text" in error.value.hint


async def test_one_ask_may_be_answered_twice(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        ask = (await service.next(session)).asks[0].context
        one = await told(service, session, kernel(status="incorrect"), ask_id=ask.id)
        two = await told(service, session, kernel(1.4), ask_id=ask.id)
        same = await told(service, session, kernel(1.4), ask_id=ask.id)
        assert one.node is not None
        assert two.node is not None
        assert same.node is not None
        assert (one.node.id, two.node.id, same.node.id) == ("n1", "n2", "n2")
