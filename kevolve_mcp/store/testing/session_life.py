"""Sessions from their opening to their end, and what they have spent."""

from __future__ import annotations

import dataclasses
import re
import secrets
from pathlib import Path

from harness.types import Budget, Goal, Policy
from kevolve_mcp.errors import Conflict, NotFound, UsageError
from kevolve_mcp.search.node import Meeting
from kevolve_mcp.search.provenance import AuthorId

from ..examples import (
    EXPAND,
    Clock,
    new_node,
    opened,
    refused,
    sample_candidate,
    sample_evaluation,
    sample_task,
)
from ..records import NewSession
from ..remembered import NodeDuel, SessionOutcome
from .suite import Suite


class SessionLife(Suite):
    def test_spent_is_derived_from_rows(self, tmp_path: Path) -> None:
        """Evaluations of nodes count; confirming the winner is not charged to the budget."""
        checked, task = sample_candidate("c"), sample_task()
        with self.store(tmp_path) as store:
            session = opened(store).id
            node = store.nodes.add(session, new_node(store, "a", tokens=100, usd=0.25))
            store.nodes.add(
                session,
                new_node(store, "a", parents=(node.id,), evaluation=node.evaluation, tokens=10),
            )
            store.candidates.put(checked)
            store.evaluations.put(sample_evaluation(checked, task, purpose="check"), session)
            spent = store.sessions.spent(session)
            assert (spent.evaluations, spent.device_seconds, spent.tokens, spent.usd) == (
                1,
                0.5,
                110,
                0.25,
            )
            store.evaluations.put(sample_evaluation(checked, task, purpose="confirm"), session)
            assert store.sessions.spent(session) == spent

    def test_seconds_are_worked_time(self, tmp_path: Path) -> None:
        """Evaluating and writing count, once where they overlap; pauses and unanswered asks do
        not."""
        clock, task = Clock(), sample_task()
        slow, quick = (
            sample_evaluation(sample_candidate(n), task, seconds=s)
            for n, s in (("a", 8.0), ("b", 2.0))
        )
        with self.store(tmp_path, clock) as store:
            session = opened(store).id
            clock.now += 3600
            first = store.asks.add(session, EXPAND, "", author=AuthorId("me"), lease_s=60)
            other = store.asks.add(session, EXPAND, "", author=AuthorId("you"), lease_s=60)
            clock.now += 20
            store.jobs.start("evaluate", session, {"ask": first.seq})
            clock.now += 10  # 8 of them evaluating, the rest waiting
            store.nodes.add(session, new_node(store, "a", evaluation=slow, ask=first.seq))
            assert round(store.sessions.spent(session).seconds, 6) == 28
            clock.now += 3600
            assert round(store.sessions.spent(session).seconds, 6) == 28
            store.asks.take(session, other.seq, author=AuthorId("another"), lease_s=60)
            clock.now += 5
            store.nodes.add(session, new_node(store, "b", evaluation=quick, ask=other.seq))
            assert round(store.sessions.spent(session).seconds, 6) == 33

    def test_another_budget_is_recorded(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            session = opened(store)
            assert store.sessions.set_budget(session.id, session.budget) == session
            more = store.sessions.set_budget(session.id, Budget(evaluations=99))
            assert (more.budget, store.sessions.get(session.id)) == (Budget(evaluations=99), more)
            assert [past.budget for past in more.options.budgets] == [session.budget]
            store.sessions.finish(session.id, "abandoned", "enough")
            refused(Conflict, lambda: store.sessions.set_budget(session.id, Budget()))

    def test_sessions_are_joined_listed_and_ended_once(self, tmp_path: Path) -> None:
        mark = secrets.token_hex(3)
        name = f"RMS Norm/é {mark}"
        with self.store(tmp_path) as store:
            first = opened(store, name)
            assert re.fullmatch(rf"rms_norm_{mark}-[0-9a-f]{{4}}", first.id)
            new = NewSession(
                **{f.name: getattr(first, f.name) for f in dataclasses.fields(NewSession)}
            )
            other = dataclasses.replace(new, goal=Goal("speedup", 2))
            open_session = store.sessions.find_open(first.task, "cpu", "cpp", Goal(), Policy())
            assert open_session is not None
            joined, again = store.sessions.join(new)
            assert (joined, again) == (open_session, True)
            assert store.sessions.join(other)[1] is False
            node = store.nodes.add(first.id, new_node(store, "low", name, 1.2))
            best = store.nodes.add(first.id, new_node(store, "high", name, 1.9, parents=(node.id,)))
            summary = next(s for s in store.sessions.list("open") if s.session.id == first.id)
            assert (summary.nodes, summary.best, summary.best_fitness) == (2, best.id, 1.9)
            lost = Meeting(best.id, "slower", 0.8, (0.7, 0.9))
            beaten = store.nodes.add(
                first.id,
                dataclasses.replace(new_node(store, "lucky", name, 2.5), met=lost),
            )
            summary = next(s for s in store.sessions.list("open") if s.session.id == first.id)
            assert (summary.nodes, summary.best) == (3, best.id)
            (lent,) = store.similar(store.tasks.get(first.task), "cpu", "cpp", least=1.0)
            assert (lent.node.id, beaten.fitness) == (best.id, 2.5)
            outcome = SessionOutcome(
                node=best.id,
                confirmed=best.evaluation,
                measured=best.evaluation,
                package="folder",
                rejected={"n9": "incorrect"},
                contest=(NodeDuel(best.id, "n9", 1.1, (1.0, 1.2), "equivalent"),),
            )
            ended = store.sessions.finish(first.id, "finished", "goal reached", outcome)
            assert (ended.state, ended.reason) == ("finished", "goal reached")
            assert ended.outcome == outcome
            assert store.sessions.finish(first.id, "finished", "other") == ended
            refused(Conflict, lambda: store.sessions.finish(first.id, "abandoned", "no"))
            refused(Conflict, lambda: store.nodes.add(first.id, new_node(store, "late", name)))
            refused(
                Conflict,
                lambda: store.asks.add(first.id, EXPAND, "", author=AuthorId("me"), lease_s=1),
            )
            assert first.id in refused(NotFound, lambda: store.sessions.get(first.id + "z")).hint

    def test_a_session_may_be_named_before_it_exists(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            record = opened(store, "named")
            new = NewSession(
                **{f.name: getattr(record, f.name) for f in dataclasses.fields(NewSession)}
            )
            name = store.sessions.fresh_id("Named")
            assert re.fullmatch("named-[0-9a-f]{4}", name)
            assert store.sessions.create(new, name).id == name
            assert store.sessions.create(new, name) == store.sessions.get(name)
            assert (
                store.sessions.join(
                    dataclasses.replace(new, target=f"t{name[-4:]}"), f"{name}ffff"
                )[0].id
                == f"{name}ffff"
            )
            refused(
                Conflict,
                lambda: store.sessions.create(dataclasses.replace(new, target="elsewhere"), name),
            )
            refused(UsageError, lambda: store.sessions.create(new, "../x"))
