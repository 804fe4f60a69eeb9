"""The loop against the real server in memory, with the scripted executor."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client

from harness.types import Budget, Goal, Spent
from kevolve_mcp.driver import RunOutcome, connect, events
from kevolve_mcp.driver.client import SessionClient
from kevolve_mcp.driver.options import extended
from kevolve_mcp.errors import EvaluatorUnavailable, KEvolveError, NotFound, TaskRefused, UsageError
from kevolve_mcp.search import Origin
from kevolve_mcp.sessions.types import Text
from kevolve_mcp.synthesis.authors import AskContext, Author, Exhausted, OfflineAuthor, Proposal

from .conftest import START, Runner, Steady, write_task
from .fake_server import fake_server


def told(runner: Runner) -> list[events.NodeEvaluated]:
    return [e for e in runner.events if isinstance(e, events.NodeEvaluated)]


def test_it_runs_to_termination_and_exports(runner: Runner) -> None:
    outcome = runner.run()
    kinds = [type(e).__name__ for e in runner.events if not isinstance(e, events.Working)]
    assert kinds[:3] == ["SessionOpened", "Baseline", "NodeEvaluated"]
    assert kinds[-3:] == ["Terminated", "SearchFinished", "PackageExported"]
    assert outcome.ending is not None
    assert outcome.ending.node is not None
    assert outcome.ending.measured is not None
    assert (Path(outcome.ending.package) / "manifest.json").is_file()
    assert outcome.session.state == "finished"
    assert outcome.ending.lineage[0].origin == Origin("user_file")


def test_the_budget_is_respected_and_named_as_the_reason(runner: Runner) -> None:
    outcome = runner.run(budget=Budget(evaluations=4))
    assert outcome.nodes == len(told(runner)) == 4
    assert outcome.reason == "budget_spent"
    (end,) = [e for e in runner.events if isinstance(e, events.Terminated)]
    assert "4" in end.detail
    assert end.use == outcome.use
    assert end.use.wall_s > 0
    assert 0 <= end.use.idle <= 1


def test_a_goal_that_is_reached_ends_the_search(runner: Runner) -> None:
    outcome = runner.run(goal=Goal("speedup", 1.1))
    assert outcome.reason == "goal_reached"
    assert outcome.nodes < 6


def test_the_offline_author_varies_the_parameters_of_the_start(runner: Runner) -> None:
    outcome = runner.run(OfflineAuthor(skills=()))
    assert outcome.ending is not None
    assert outcome.ending.node is not None
    changed = [e.told.node.params for e in told(runner)]
    assert changed[0] == {"UNROLL": 1, "VEC": 4}
    assert any(p != changed[0] for p in changed)


def test_what_it_learns_and_the_best_so_far_are_told(runner: Runner) -> None:
    runner.run()
    lessons = [e for e in runner.events if isinstance(e, events.SkillsLearned)]
    assert len(lessons) == len(told(runner))
    best = [e for e in runner.events if isinstance(e, events.BestImproved)]
    fitness = [e.node.fitness or 0 for e in best]
    assert fitness == sorted(fitness)
    assert best[0].node.interval is not None


def test_several_asks_in_flight_spend_the_same_budget(runner: Runner) -> None:
    outcome = runner.run(parallel=3)
    assert outcome.nodes == 6
    assert len({e.told.node.id for e in told(runner)}) == 6
    assert outcome.ending is not None


def test_joining_an_open_session_goes_on_with_it(runner: Runner) -> None:
    class OneThenFail(Steady):
        async def propose(self, ask: AskContext) -> Proposal:
            if ask.id != "a1":
                raise KEvolveError("no more money")
            return await super().propose(ask)

    with pytest.raises(KEvolveError, match="no more money"):
        runner.run(OneThenFail())
    outcome = runner.run()
    opened = [e for e in runner.events if isinstance(e, events.SessionOpened)]
    assert [o.resumed for o in opened] == [False, True]
    assert opened[0].session.id == opened[1].session.id
    assert outcome.session.nodes == 6


def test_joining_a_session_with_another_budget_is_said(runner: Runner) -> None:
    async def leave_open() -> None:
        async with connect(lambda: Client(fake_server())) as server:
            await server.call("session_open", {**runner.opening(), "wait_s": 20})

    anyio.run(leave_open)
    runner.run(budget=Budget(evaluations=9))
    remarks = [e for e in runner.events if isinstance(e, events.Remark)]
    assert remarks[0].text.endswith("although its limit of evaluations is 6")
    assert [action.verb for action in remarks[0].actions] == ["open_another"]


def test_resume_after_the_driver_was_cancelled_in_the_middle(
    runner: Runner, tmp_path: Path
) -> None:
    """Also what kill -9 leaves behind: a session with nodes, an ask without an answer, a job
    without an owner."""
    slow = write_task(tmp_path / "slow", START + "# fake: seconds=0.3\n")
    session = ""

    async def interrupted() -> None:
        nonlocal session
        async with anyio.create_task_group() as group:
            group.start_soon(_driven, runner, {"task": Text(path=str(slow))})
            while len(told(runner)) < 2:
                await anyio.sleep(0.02)
            session = next(
                e.session.id for e in runner.events if isinstance(e, events.SessionOpened)
            )
            await anyio.sleep(0.1)
            group.cancel_scope.cancel()

    anyio.run(interrupted)
    before = [e.told.node.id for e in told(runner)]
    outcome = runner.run(process=True, resume=session, more=Budget())
    after = [e.told.node.id for e in told(runner)][len(before) :]
    assert not set(before) & set(after)
    assert outcome.session.id == session
    assert outcome.session.nodes == 6
    assert outcome.session.open_asks == 0


async def _driven(runner: Runner, changes: dict[str, object]) -> RunOutcome:
    return await runner.drive(Steady("seconds=0.3"), process=True, **changes)


def test_resuming_a_finished_session_says_so_and_changes_nothing(runner: Runner) -> None:
    session = runner.run().session.id
    again = runner.run(resume=session)
    assert again.nodes == 0
    assert "already finished" in again.reason
    assert again.ending is not None
    assert again.ending.package


def test_limits_named_with_resume_count_from_here() -> None:
    """The one of evaluations and time that is not named is lifted, as when a session is opened; the
    other limits stay."""
    held = Budget(evaluations=2, seconds=9.0, usd=1.0)
    spent = Spent(evaluations=2, seconds=7.0, usd=0.5)
    assert extended(held, spent, Budget(evaluations=3)) == Budget(evaluations=5, usd=1.0)
    assert extended(held, spent, Budget(usd=2.0)) == Budget(evaluations=2, seconds=9.0, usd=2.5)
    assert extended(held, spent, Budget()) == held


def test_resume_goes_on_where_the_budget_was_spent(runner: Runner) -> None:
    async def body() -> tuple[str, RunOutcome]:
        async with connect(lambda: Client(fake_server()), lambda text: None) as server:
            client = SessionClient(server, lambda event: None, 2)
            opened, _ = await client.open(runner.opening(budget=Budget(evaluations=1)))
            (ask,) = (await client.next(opened.id)).asks
            await client.submit(ask, await Steady().propose(ask))
            assert (await client.next(opened.id)).ended == "budget_spent"
        return opened.id, await runner.drive(resume=opened.id, more=Budget(evaluations=2))

    session, outcome = anyio.run(body)
    assert (outcome.session.id, outcome.session.nodes, outcome.reason) == (
        session,
        3,
        "budget_spent",
    )
    assert outcome.session.budget == Budget(evaluations=3)


def test_more_time_than_for_no_node_is_asked_for(runner: Runner) -> None:
    """And the session stays open, instead of ending with nothing new."""

    async def body() -> str:
        async with connect(lambda: Client(fake_server()), lambda text: None) as server:
            client = SessionClient(server, lambda event: None, 2)
            opened, _ = await client.open(runner.opening(budget=Budget(evaluations=3)))
            for _ in range(3):  # the start, and two that take their time
                (ask,) = (await client.next(opened.id)).asks
                await client.submit(ask, await Steady("seconds=0.5").propose(ask))
        with pytest.raises(UsageError, match="a node takes up to") as caught:
            await runner.drive(resume=opened.id, more=Budget(seconds=0.1))
        assert "Raise the limits" in caught.value.hint
        assert (await runner.drive(resume=opened.id, more=Budget(evaluations=1))).session.nodes == 4
        return opened.id

    anyio.run(body)


def test_resuming_an_unknown_session_is_an_error_with_a_hint(runner: Runner) -> None:
    with pytest.raises(NotFound) as caught:
        runner.run(resume="nothing-0000")
    assert caught.value.hint


def test_a_refused_task_is_raised_with_its_fix(runner: Runner, tmp_path: Path) -> None:
    task = write_task(tmp_path / "bad", markers=["refused=line 3: get_inputs is missing"])
    with pytest.raises(TaskRefused, match="get_inputs is missing"):
        runner.run(task=Text(path=str(task)))


class Dry(Author):
    """Answers starts, then has no ideas."""

    name = "dry"

    async def propose(self, ask: AskContext) -> Proposal:
        if ask.start is not None:
            return Proposal(ask.start.source, ask.language)
        raise Exhausted("no ideas", "Read a book.")


def test_an_exhausted_author_ends_the_search_with_what_there_is(runner: Runner) -> None:
    outcome = runner.run(Dry())
    assert outcome.reason == "author exhausted"
    assert outcome.nodes == 1
    assert outcome.ending is not None
    assert outcome.ending.package
    assert any("no ideas" in e.text for e in runner.events if isinstance(e, events.Remark))


def test_an_author_that_fails_now_and_then_is_borne(runner: Runner) -> None:
    class Flaky(Steady):
        calls = 0

        async def propose(self, ask: AskContext) -> Proposal:
            self.calls += 1
            if self.calls % 2 == 0:
                raise KEvolveError("rate limit")
            return await super().propose(ask)

    outcome = runner.run(Flaky())
    assert outcome.ending is not None
    assert any("rate limit" in e.text for e in runner.events if isinstance(e, events.Remark))


def test_a_broken_evaluator_ends_the_run_but_not_the_session(
    runner: Runner, tmp_path: Path
) -> None:
    task = write_task(tmp_path / "broken", START + "# fake: unavailable=99\n")
    with pytest.raises(EvaluatorUnavailable):
        runner.run(Steady("unavailable=99"), task=Text(path=str(task)))
    assert not told(runner)


def test_failures_are_nodes_and_a_search_without_a_winner_says_so(
    runner: Runner, tmp_path: Path
) -> None:
    task = write_task(tmp_path / "wrong", START + "# fake: status=incorrect\n")
    outcome = runner.run(Steady("status=incorrect"), task=Text(path=str(task)))
    assert outcome.nodes > 0
    assert {e.told.node.status for e in told(runner)} == {"incorrect"}
    assert outcome.ending is None
    assert "no node can be exported" in outcome.reason


def test_a_winner_that_its_re_validation_refutes_is_not_exported(
    runner: Runner, tmp_path: Path
) -> None:
    task = write_task(tmp_path / "refuted", START + "# fake: confirm=incorrect\n")
    outcome = runner.run(Steady("confirm=incorrect"), task=Text(path=str(task)))
    assert outcome.ending is None
    assert "no node was confirmed" in outcome.reason
