"""open -> next -> submit -> finish, and joining what is open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.types import Budget, Goal, Interpreter, Policy
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict, NotFound, UsageError
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.search import Origin
from kevolve_mcp.search.provenance import USER_FILE
from kevolve_mcp.sessions import Service
from kevolve_mcp.sessions.types import (
    SearchOptions,
    SessionSpec,
    SubmitRequest,
    Text,
)
from kevolve_mcp.settings import Settings

from .conftest import TASK, Bench, finish, finished, kernel, opened, result, told

pytestmark = pytest.mark.anyio


async def test_the_whole_journey(bench: Bench) -> None:
    bench.task(name="scale/task.py")
    (bench.home / "scale" / "start.py").write_text(
        kernel(1.1, extra='TUNABLES = {"A": [1, 2]}\nPARAMS = {"A": 1}')
    )
    async with bench.service() as service:
        job = await service.open(SessionSpec(Text(path=str(bench.home / "scale"))))
        assert job.session_id.startswith("scale-")
        job = await service.wait(job.id, 20)
        assert isinstance(job.result, api.Opened)
        assert (job.result.session.task, job.result.session.waiting_starts) == ("scale", 1)
        assert job.result.session.cases[0].baselines_us == {"eager": 120.0, "compile": 100.0}

        ask = (await service.next(job.session_id, fresh=True)).asks[0].context
        assert (ask.role, ask.start is not None and ask.start.origin) == ("start", "user file")
        first = result(
            await finished(
                service, await service.submit(SubmitRequest(job.session_id, ask_id=ask.id))
            )
        )
        assert first.node is not None
        assert (first.node.id, first.node.origin, first.node.params) == (
            "n1",
            USER_FILE,
            {"A": 1},
        )

        ask = (await service.next(job.session_id)).asks[0].context
        assert ask.text.count(ask.id) > 0
        better = await told(
            service,
            job.session_id,
            kernel(2.0),
            ask_id=ask.id,
            parents=("n1",),
            hypothesis="wider",
            predicted_speedup=1.5,
        )
        assert better.node is not None
        assert better.new_best
        assert "improved" in better.node.signals
        assert better.observed == pytest.approx(2.0 / (first.node.fitness or 0))
        assert better.predicted_speedup == 1.5

        end = await finish(service, job.session_id)
        assert isinstance(end.result, api.Finished)
        assert end.result.node is not None
        assert (end.result.node.id, end.result.session.state) == ("n2", "finished")
        assert [n.id for n in end.result.lineage] == ["n1", "n2"]
        assert end.result.measured is not None
        assert end.result.measured.purpose == "export"
        assert end.result.confirmed is not None
        assert end.result.confirmed.purpose == "confirm"
        assert (Path(end.result.package) / "manifest.json").is_file()
        assert [s.title for s in end.result.skills] == ["wider"]
        assert end.result.skills[0].interval[0] > 1


async def test_opening_again_joins(bench: Bench) -> None:
    async with bench.service() as service:
        request = SessionSpec(bench.task())
        session = await opened(service, request)
        again = await service.open(request)
        assert isinstance(again.result, api.Opened)
        assert (again.session_id, again.result.joined) == (session, True)
        other = await service.open(replace(request, budget=Budget(evaluations=3)))
        assert isinstance(other.result, api.Opened)
        assert other.session_id == session
        assert "budget" in other.result.differs[0]
        assert await opened(service, replace(request, new=True)) != session
        assert await opened(service, replace(request, goal=Goal("speedup", 2.0))) != session
    assert len(bench.executor.opened) == 3


REMOVED = "/removed/bin/python"


class Former(FakeExecutor):
    """Of an interpreter while it was there, and after it was removed."""

    there = True

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return (Interpreter(REMOVED, "", self.there, "", "3", "", ""),)


@pytest.mark.parametrize("named", ["file", "moved"])
async def test_a_session_whose_interpreter_is_gone_is_not_joined(bench: Bench, named: str) -> None:
    """Neither where the task is known by its file nor where it has to be examined."""
    spec = SessionSpec(bench.task())
    async with bench.service(Former()) as service:
        first = await opened(service, spec)
    former = Former()
    former.there = False
    if named == "moved":
        spec = SessionSpec(bench.task(name="moved/task.py"))
    async with Service(
        Settings(home=bench.home / "home"),
        lambda python, near: former if python == REMOVED else bench.executor,
    ) as service:
        started = await service.open(spec)
        second = (await service.wait(started.id, 20)).result
        assert isinstance(second, api.Opened)
        assert second.session.id != first
        assert any(first in note for note in second.session.notes)


async def test_another_helper_or_companion_is_another_session(bench: Bench) -> None:
    """Of equal texts: in another folder, and after an edit in place."""
    text = TASK + "# fake: imports=helper.py\n"
    one, other = (SessionSpec(bench.task(text, f"{name}/task.py")) for name in ("one", "other"))
    for name in ("one", "other"):
        (bench.home / name / "helper.py").write_text(f"# {name}\n")
    async with bench.service() as service:
        first, second = await opened(service, one), await opened(service, other)
        assert first != second
        told_first = await told(service, first, kernel(2.0))
        told_second = await told(service, second, kernel(2.0))
        assert not told_second.cached
        assert told_first.evaluation.id == told_second.evaluation.id == "e1"  # of each session
        assert [r.path for r in bench.executor.tasks] == [one.task.path, other.task.path]
        # joined without examining it
        assert (await opened(service, one), len(bench.executor.opened)) == (first, 2)

        (bench.home / "other" / "helper.py").write_text("# one\n")
        assert await opened(service, other) == first  # now they are one task
        (bench.home / "one" / "helper.py").write_text("# edited\n")
        third = await opened(service, one)
        assert third not in (first, second)
        (bench.home / "one" / "task.heldout.py").write_text("CASES = {}\n")
        fourth = await opened(service, one)
        assert fourth not in (first, second, third)
        (bench.home / "one" / "helper").mkdir()
        (bench.home / "one" / "helper" / "__init__.py").touch()  # it would come before helper.py
        before = len(bench.executor.opened)
        assert await opened(service, one) == fourth
        assert len(bench.executor.opened) == before + 1


async def test_a_task_given_as_text_is_joined_as_text(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(Text(source=TASK)))
        assert await opened(service, SessionSpec(Text(source=TASK))) == session
        assert len(bench.executor.opened) == 1
        # equal once it is examined
        assert await opened(service, SessionSpec(bench.task())) == session
        assert len(bench.executor.opened) == 2


async def test_the_id_is_known_while_the_task_is_opened(bench: Bench) -> None:
    async with bench.service() as service:
        request = SessionSpec(bench.task(TASK + "# fake: seconds=0.5\n"))
        job = await service.open(request)
        assert (await service.open(request)).id == job.id  # joins the running job
        with pytest.raises(Conflict, match="still being opened"):
            await service.next(job.session_id)
        assert (await service.wait(job.id, 20)).session_id == job.session_id
        assert (await service.next(job.session_id)).asks


async def test_a_refused_task_says_why_and_leaves_no_session(bench: Bench) -> None:
    async with bench.service() as service:
        job = await service.open(
            SessionSpec(
                bench.task("# fake: refused=line 3: get_inputs is missing\nclass Model: pass\n")
            )
        )
        job = await service.wait(job.id, 20)
        assert job.state == "failed"
        assert job.error is not None
        assert (job.error.code, job.error.message) == (
            "task_refused",
            "line 3: get_inputs is missing",
        )
        assert job.error.hint
        with pytest.raises(NotFound, match="was not opened"):
            await service.next(job.session_id)
        assert (await service.tree()).sessions == ()


async def test_a_target_without_device_is_refused(bench: Bench) -> None:
    async with bench.service(FakeExecutor()) as service:
        job = await service.wait(
            (await service.open(SessionSpec(bench.task(), target="cuda"))).id, 20
        )
        assert job.error is not None
        assert "cpu" in job.error.hint
        with pytest.raises(UsageError, match="unknown target"):
            await service.open(SessionSpec(bench.task(), target="abacus"))
        with pytest.raises(UsageError, match="unknown selection policy"):
            await service.open(SessionSpec(bench.task(), search=SearchOptions(selection="luck")))


async def test_what_no_candidate_could_satisfy_is_refused_at_once(bench: Bench) -> None:
    async with bench.service() as service:
        job = await service.wait(
            (await service.open(SessionSpec(bench.task(), language="fortran"))).id, 20
        )
        assert job.error is not None
        assert "cpp" in job.error.hint

    async with bench.service(FakeExecutor(isolation="process")) as service:
        job = await service.wait((await service.open(SessionSpec(bench.task()))).id, 20)
        assert job.error is not None
        assert [(a.setting, a.value) for a in job.error.actions] == [("isolation", "process")]
        assert await opened(service, SessionSpec(bench.task(), policy=Policy(isolation="process")))


async def test_a_finished_kernel_starts_the_next_session_of_a_similar_task(bench: Bench) -> None:
    async with bench.service() as service:
        session = await opened(service, SessionSpec(bench.task()))
        await told(service, session, kernel(1.9))
        await finish(service, session)
        other = await opened(
            service, SessionSpec(bench.task(TASK.replace("scale", "rescale"), "rescale.py"))
        )
        ask = (await service.next(other, fresh=True)).asks[0].context
        assert ask.start is not None
        assert ask.start.origin == "task: scale"
        assert "speedup=1.9" in ask.start.source
        lent = await told(service, other, ask.start.source, ask_id=ask.id)
        assert lent.node is not None
        assert lent.node.origin == Origin("task", "scale")


async def test_knowledge(bench: Bench) -> None:
    async with bench.service() as service:
        found = await service.search(
            signals=("memory_bound",), target="cpu", language="cpp", limit=2
        )
        assert len(found.hits) == 2
        assert found.next_cursor == 2
        assert (await service.read(found.hits[0].id)).title == found.hits[0].title


async def test_describe_says_what_is_missing(bench: Bench) -> None:
    async with bench.service(FakeExecutor("absent")) as service:
        view = await service.describe("cpu")
        assert view.targets[0].mode == "absent"
        assert view.missing == ("cpu: switched off",)
