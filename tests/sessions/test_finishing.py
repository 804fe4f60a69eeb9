"""Ending a session, and the skills that come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Evaluation, EvaluationRequest, Policy, Task
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, EvaluatorUnavailable, NotFound, UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.export import read_package
from kevolve_mcp.sessions.types import FinishRequest, SessionSpec, SkillRequest, SubmitRequest, Text

from .conftest import Bench, finish, kernel, opened, told

pytestmark = pytest.mark.anyio


async def test_a_winner_that_is_not_confirmed_gives_way(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.3))
        await told(service, session, kernel(2.5, confirm="incorrect"))
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.id == "n1"
        assert "incorrect" in job.result.rejected["n2"]


async def test_a_named_node_does_not(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.3))
        await told(service, session, kernel(2.5, confirm="incorrect"))
        await told(service, session, kernel(status="crashed"))
        job = await finish(service, session, node_id="n2")
        assert job.error is not None
        assert "no node was confirmed" in job.error.message
        with pytest.raises(Conflict, match="crashed"):
            await finish(service, session, node_id="n3")
        with pytest.raises(NotFound, match="n9"):
            await finish(service, session, node_id="n9")
        shown = await service.tree(session)
        assert "best n1" in shown.heading
        assert "n2 2.5x draft | not confirmed (e4)" in shown.text
        job = await finish(service, session, node_id="n1")
        assert isinstance(job.result, api.Finished)
        assert job.result.reason == "n1 was chosen by name."
        assert "e4" in job.result.rejected["n2"]


async def test_what_was_proved_wrong_is_not_chosen_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(2.5, confirm="incorrect"))
        assert (await finish(service, session)).error is not None
        with pytest.raises(Conflict, match=r"proved wrong when confirmed: n1 \(e2\)"):
            await finish(service, session)


async def test_a_node_that_needs_review_counts_once_a_person_let_it_pass(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        told_one = await told(service, session, kernel(2.5, status="needs_review"))
        assert told_one.node is not None
        assert told_one.node.fitness == 0.0
        with pytest.raises(Conflict) as error:
            await finish(service, session, node_id="n1")
        assert error.value.actions == (Action("approve", session=session, node="n1"),)
        approved = await service.approve(session, "n1", "R. Viewer", "the library call only copies")
        assert approved.fitness == pytest.approx(2.5)
        assert approved.approved_by == "R. Viewer"
        assert "best n1 at 2.5x" in (await service.tree()).text
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.id == "n1"
        manifest = read_package(Path(job.result.package)).manifest
        assert manifest.approved_by == "R. Viewer"
        assert manifest.approved_at.endswith("+00:00")


async def test_a_review_waits_for_a_person(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), policy=Policy(review=True)))
        await told(service, session, kernel(1.3))
        await told(service, session, kernel(1.5, status="incorrect"))
        with pytest.raises(Conflict, match="review") as error:
            await finish(service, session)
        assert error.value.actions == (Action("approve", session=session, node="n1"),)
        with pytest.raises(Conflict, match="incorrect"):
            await service.approve(session, "n2", "R. Viewer")
        with pytest.raises(NotFound, match="n9"):
            await service.approve(session, "n9", "R. Viewer")
        await service.approve(session, "n1", "R. Viewer")
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
        assert job.result.node is not None
        assert job.result.node.approved_by == "R. Viewer"


async def test_an_approval_covers_what_was_found_before_it(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task(), policy=Policy(review=True)))
        await told(service, session, kernel(1.3, confirm="needs_review"))
        await service.approve(session, "n1", "R. Viewer")
        job = await finish(service, session)
        assert job.error is not None
        for part in ("needs_review", "suspect.implausible_speed, found after R. Viewer had"):
            assert part in job.error.message
        assert Action("approve", session=session, node="n1") in job.error.actions
        await service.approve(session, "n1", "S. Viewer", "the cache explains it")
        job = await finish(service, session)
    assert isinstance(job.result, api.Finished)
    assert job.result.confirmed is not None
    assert job.result.confirmed.status == "needs_review"
    assert read_package(job.result.package).manifest.approved_by == "S. Viewer"
    assert [r.purpose for r in bench.executor.requests] == ["search", "confirm", "export"]


async def test_what_the_search_showed_is_covered_by_one_approval(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(2.5, status="needs_review"))
        await service.approve(session, "n1", "R. Viewer")
        job = await finish(service, session)
    assert isinstance(job.result, api.Finished)
    assert job.result.confirmed is not None
    assert job.result.confirmed.status == "needs_review"


async def test_nothing_to_export_says_what_to_do(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        with pytest.raises(Conflict) as error:
            await finish(service, session)
        assert "discard" in {action.verb for action in error.value.actions}


async def test_a_finish_is_read_again(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(
            service, SessionSpec(bench.task("# fake: held_out=edge\nclass Model: pass\n"))
        )
        await told(service, session, kernel(1.3))
        first = await finish(service, session)
        evaluations = len(bench.executor.evaluated)
        again = await finish(service, session, include_files=True)
        assert isinstance(first.result, api.Finished)
        assert isinstance(again.result, api.Finished)
        assert len(bench.executor.evaluated) == evaluations
        assert again.result.package == first.result.package
        assert "kernel.py" in again.result.contents
        assert first.result.confirmed is not None
        assert [c.name for c in first.result.confirmed.cases] == ["default", "edge"]
        package = read_package(first.result.package)
        assert package.as_called is not None
        assert first.result.measured is not None
        assert package.as_called.fitness == first.result.measured.fitness
        with pytest.raises(Conflict, match="finished"):
            await told(service, session, kernel(1.4))


async def test_a_finish_that_broke_off_goes_on(bench: Bench) -> None:
    """The confirmation and the package of the first attempt are found, not made again."""

    class Breaks(FakeExecutor):
        broken = True

        async def evaluate(
            self,
            task: Task,
            request: EvaluationRequest,
            target: str,
            *,
            progress: Progress | None = None,
        ) -> Evaluation:
            if self.broken and request.purpose == "export":
                raise EvaluatorUnavailable("the machine went away", "Try again.")
            return await super().evaluate(task, request, target, progress=progress)

    executor = Breaks()
    async with bench.service(executor) as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.3))
        job = await finish(service, session)
        assert job.error is not None
        assert job.error.code == "evaluator_unavailable"
        executor.broken = False
        job = await finish(service, session)
        assert isinstance(job.result, api.Finished)
    exports = bench.home / "home" / "exports"
    assert [str(p) for p in exports.iterdir()] == [job.result.package]
    assert [r.purpose for r in executor.requests] == ["search", "confirm", "export"]


async def test_abandoning_stops_the_jobs(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        running = await service.submit(SubmitRequest(session, Text(source=kernel(seconds=60))))
        await told(service, session, kernel(1.2))
        with pytest.raises(Conflict, match=running.id):
            await finish(service, session)
        job = await finish(service, session, discard=True)
        assert isinstance(job.result, api.Finished)
        assert job.result.state == "abandoned"
        assert (await service.job(running.id)).state == "cancelled"


async def test_a_skill_needs_a_certain_effect(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.0))
        await told(service, session, kernel(1.005), parents=("n1",))
        await told(service, session, kernel(1.5), parents=("n1",))
        await told(service, session, kernel(status="incorrect"), parents=("n1",))
        with pytest.raises(UsageError, match="not certain"):
            await service.record_skill(SkillRequest(session, "n2", title="t", mechanism="m"))
        with pytest.raises(UsageError, match="not proved correct"):
            await service.record_skill(SkillRequest(session, "n4", title="t", mechanism="m"))
        with pytest.raises(UsageError, match="title is empty"):
            await service.record_skill(SkillRequest(session, "n3", mechanism="m"))
        skill = await service.record_skill(
            SkillRequest(session, "n3", title="Fuse the passes", mechanism="One pass reads once.")
        )
        assert (skill.state, round(skill.effect, 6)) == ("proposed", 1.5)
        assert skill.interval[0] > 1
        assert skill.id == "fuse_the_passes"
        over_baseline = SkillRequest(session, "n3", "n0", "Against eager", "One pass.")
        assert "n3 against n1" in (await service.record_skill(over_baseline)).evidence


async def test_progress_says_which_part_of_the_finish_is_under_way(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.3, seconds=0.9))
        job = await service.finish(FinishRequest(session))
        said: list[str] = []
        await service.wait(job.id, 20, progress=lambda event: said.append(event.message))
    work = [text for text in said if text not in ("starting", "proposing skills")]
    assert any(text.startswith("re-validating n1: ") for text in work)
    assert {text.partition(":")[0] for text in work} <= {
        "re-validating n1",
        "writing the package of n1",
        "measuring the package",
    }
