"""What every database behind the store must do.

Inherit `StoreConformance` in a test module and say where the store lies:

    class TestPostgres(StoreConformance):
        def url(self, home): return "postgresql+psycopg://host/name"
"""

from __future__ import annotations

import dataclasses
import math
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.types import Budget, CaseResult, Goal, Policy, StageReport
from kevolve_mcp.errors import Conflict, NotFound, UsageError
from kevolve_mcp.search.provenance import USER_FILE, Author
from kevolve_mcp.search.tree import ROOT, Meeting

from .records import NewAsk, NewNode, NewSession, NewSkill, SkillEvidence, SkillOutcome, SkillUse
from .remembered import NodeDuel, SessionOptions, SessionOutcome
from .samples import (
    ENVIRONMENT,
    EXPAND,
    Clock,
    new_node,
    opened,
    refused,
    sample_candidate,
    sample_evaluation,
    sample_task,
)
from .store import Store


class StoreConformance:
    """Inherit and override `url`. Stores of one database may hold rows of other tests: nothing here
    counts all rows."""

    def url(self, home: Path) -> str:
        """The URL for `Store.open`."""
        return ""

    def store(self, home: Path, clock: Clock | None = None) -> Store:
        """An open store."""
        return Store.open(home, self.url(home), clock=clock or Clock())

    def test_everything_comes_back_as_it_went_in(self, tmp_path: Path) -> None:
        task, candidate = sample_task(), sample_candidate()
        evaluation = sample_evaluation(candidate, task)
        with self.store(tmp_path) as store:
            store.tasks.put(task, ENVIRONMENT)
            store.candidates.put(candidate)
            new = NewSession(
                task=task.digest,
                target="cpu",
                language="cpp",
                goal=Goal("speedup", 1.23456789),
                budget=Budget(evaluations=9, usd=0.5),
                policy=Policy("allow", "process", "bitwise", True),
                selection="evolutionary",
                seed=2**100,
                python="/bin/p",
                options=SessionOptions(inject=0.5, beside=("a", "b")),
            )
            session = store.sessions.create(new)
            identifier = store.evaluations.put(evaluation, session.id)
            ask = store.asks.add(
                session.id, EXPAND, "write a kernel: é", author=Author("me"), lease_s=60
            )
            node = store.nodes.add(
                session.id,
                NewNode(
                    candidate=candidate.digest,
                    evaluation=identifier,
                    parents=(ROOT,),
                    ask=ask.seq,
                    role="draft",
                    origin=USER_FILE,
                    hypothesis="h",
                    predicted_speedup=2.0,
                    rationale="r",
                    annotations={"arm": 2},
                    params={"A": 1},
                    structure="s",
                ),
            )
        with self.store(tmp_path) as store:
            assert store.tasks.get(task.digest) == task
            assert store.tasks.get(task.digest, ENVIRONMENT) == task
            assert store.candidates.get(candidate.digest) == candidate
            assert store.sessions.get(session.id) == session
            assert {f.name: getattr(session, f.name) for f in dataclasses.fields(new)} == vars(new)
            assert store.evaluations.get(identifier).evaluation == evaluation
            assert store.asks.get(session.id, ask.seq) == ask
            assert store.asks.shown(session.id, ask.seq) == "write a kernel: é"
            tree = store.nodes.tree(session.id)
            assert tree.nodes == (node,)
            assert tree.asks == (ask,)
            assert (node.parents, node.evaluation, node.fitness, node.status) == (
                (),
                identifier,
                1.5,
                "correct",
            )
            assert node.signals == ("memory_bound", "narrow_vectors")

    def test_odd_numbers_and_characters_survive(self, tmp_path: Path) -> None:
        task, candidate = sample_task(), sample_candidate()
        odd = sample_evaluation(
            candidate,
            task,
            0.0,
            status="incorrect",
            eligible=False,
            message="nul \0 and \ud800",
            cases=(CaseResult("small", error=math.inf, detail="a\0b\ud800"),),
            stages=(
                StageReport(
                    "verify", False, 1.0, "", "log \0 \ud800 \x1b[31m", {"worst": -math.inf}
                ),
            ),
        )
        with self.store(tmp_path) as store:
            store.tasks.put(task)
            store.candidates.put(candidate)
            found = store.evaluations.get(store.evaluations.put(odd)).evaluation
            assert found.cases == odd.cases
            assert found.stages == odd.stages
            assert found.message == "nul \\x00 and \\ud800"

    def test_only_an_equal_key_answers(self, tmp_path: Path) -> None:
        task, candidate = sample_task("keyed"), sample_candidate("keyed")
        evaluation = sample_evaluation(candidate, task)
        other_device = sample_evaluation(
            candidate, task, environment=dataclasses.replace(ENVIRONMENT, device="cpu:other")
        )
        with self.store(tmp_path) as store:
            store.tasks.put(task)
            store.candidates.put(candidate)
            store.evaluations.put(other_device)
            identifier = store.evaluations.put(evaluation)
            found = store.evaluations.find(evaluation.key)
            assert found is not None
            assert (found.id, found.evaluation) == (identifier, evaluation)
            assert (
                store.evaluations.find(dataclasses.replace(evaluation, purpose="confirm").key)
                is None
            )
            assert [
                e.evaluation for e in store.evaluations.list(task=task.digest, device="cpu:other")
            ][:1] == [other_device]

    def test_telling_twice_gives_the_first_node(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            session = opened(store).id
            ask = store.asks.add(session, EXPAND, "", author=Author("me"), lease_s=60)
            first = store.nodes.add(session, new_node(store, "a", ask=ask.seq))
            assert (
                store.nodes.add(
                    session, new_node(store, "a", fitness=2.5, ask=ask.seq, hypothesis="again")
                )
                == first
            )
            loose = store.nodes.add(session, new_node(store, "a", parents=(first.id,)))
            assert store.nodes.add(session, new_node(store, "a", parents=(first.id,))) == loose
            other = store.nodes.add(session, new_node(store, "b", ask=ask.seq))
            assert [n.seq for n in store.nodes.tree(session).nodes] == [1, 2, 3]
            assert other.id == "n3"
            assert store.sessions.spent(session).evaluations == 3
            store.sessions.finish(session, "finished", "budget")
            assert store.nodes.add(session, new_node(store, "a", ask=ask.seq)) == first

    def test_what_does_not_belong_together_is_refused(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            session = opened(store).id
            good = new_node(store)
            refused(NotFound, lambda: store.nodes.add("rmsnorm-none", good))
            refused(
                NotFound,
                lambda: store.nodes.add(session, dataclasses.replace(good, parents=("n7",))),
            )
            refused(
                NotFound,
                lambda: store.nodes.add(session, dataclasses.replace(good, parents=("seven",))),
            )
            refused(NotFound, lambda: store.nodes.add(session, dataclasses.replace(good, ask=3)))
            refused(
                NotFound,
                lambda: store.nodes.add(
                    session, dataclasses.replace(good, evaluation="e999999999")
                ),
            )
            refused(
                UsageError,
                lambda: store.nodes.add(session, dataclasses.replace(good, candidate="0" * 64)),
            )
            other = new_node(store, "other")
            refused(
                UsageError,
                lambda: store.nodes.add(
                    session, dataclasses.replace(good, candidate=other.candidate)
                ),
            )
            stranger = sample_evaluation(sample_candidate(), sample_task("unopened"))
            refused(
                UsageError,
                lambda: store.nodes.add(session, dataclasses.replace(good, evaluation=stranger)),
            )
            refused(UsageError, lambda: store.evaluations.put(stranger))
            refused(
                NotFound,
                lambda: store.sessions.create(
                    NewSession(task="0" * 64, target="cpu", language="cpp")
                ),
            )
            assert store.nodes.tree(session).nodes == ()
            assert store.sessions.spent(session).evaluations == 0

    def test_spent_is_derived_from_rows(self, tmp_path: Path) -> None:
        """Evaluations count where a node has them; what confirms the winner comes on top of the
        budget."""
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
            first = store.asks.add(session, EXPAND, "", author=Author("me"), lease_s=60)
            other = store.asks.add(session, EXPAND, "", author=Author("you"), lease_s=60)
            clock.now += 20
            store.jobs.start("evaluate", session, {"ask": first.seq})
            clock.now += 10  # of which 8 were the evaluation's own; the rest it waited
            store.nodes.add(session, new_node(store, "a", evaluation=slow, ask=first.seq))
            assert round(store.sessions.spent(session).seconds, 6) == 28
            clock.now += 3600
            assert round(store.sessions.spent(session).seconds, 6) == 28
            store.asks.take(session, other.seq, author=Author("another"), lease_s=60)
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
            found = store.sessions.find_open(first.task, "cpu", "cpp", Goal(), Policy())
            assert found is not None
            joined, again = store.sessions.join(new)
            assert (joined, again) == (found, True)
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
                lambda: store.asks.add(first.id, EXPAND, "", author=Author("me"), lease_s=1),
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

    def test_leases(self, tmp_path: Path) -> None:
        clock = Clock()
        with self.store(tmp_path, clock) as store:
            session = opened(store).id
            asks = store.asks.add_all(
                session,
                [NewAsk(EXPAND, "1"), NewAsk(EXPAND, "2", held=("task", "rules"))],
                author=Author("a"),
                lease_s=60,
                first_seq=1,
            )
            assert [ask.id for ask in asks] == ["a1", "a2"]
            assert store.asks.held_by(session, Author("a")) == {1: (), 2: ("task", "rules")}
            store.asks.rewrite(session, 2, "anew", author=Author("b"), held=("task",))
            assert store.asks.held_by(session, Author("a"))[2] == ("task", "rules"), (
                "b does not have it"
            )
            store.asks.rewrite(session, 2, "2", author=Author("a"), held=("task",))
            assert store.asks.held_by(session, Author("a"))[2] == ("task",)
            refused(
                Conflict,
                lambda: store.asks.add(session, EXPAND, "", author=Author("b"), lease_s=60, seq=2),
            )
            refused(Conflict, lambda: store.asks.take(session, 1, author=Author("b"), lease_s=60))
            refused(NotFound, lambda: store.asks.take(session, 9, author=Author("b"), lease_s=60))
            assert store.asks.take_expired(session, author=Author("b"), lease_s=60) is None
            assert (
                store.asks.take(session, 1, author=Author("a"), lease_s=90).lease_until
                == clock.now + 90
            )
            clock.now += 70
            assert [ask.seq for ask in store.asks.open(session)] == [1]
            given = store.asks.take_expired(session, author=Author("b"), lease_s=60)
            assert given is not None
            assert (given.seq, given.author) == (2, Author("b"))
            store.asks.release(session, 2, author=Author("a"))  # no longer a's: nothing happens
            assert store.asks.take_expired(session, author=Author("c"), lease_s=60) is None
            store.asks.release(session, 2, author=Author("b"))
            assert store.asks.take(session, 2, author=Author("c"), lease_s=60).author == Author("c")
            store.nodes.add(session, new_node(store, "late", ask=2))
            clock.now += 1000
            refused(Conflict, lambda: store.asks.take(session, 2, author=Author("c"), lease_s=60))
            assert [
                ask.seq
                for ask in (store.asks.take_expired(session, author=Author("d"), lease_s=1),)
                if ask
            ] == [1]
            assert store.asks.shown(session, 2) == "2"

    def test_a_job_lives_and_ends(self, tmp_path: Path) -> None:
        clock = Clock()
        with self.store(tmp_path, clock) as store:
            session = opened(store).id
            job = store.jobs.start("evaluate", session, {"candidate": "x"})
            assert store.jobs.get(job.id) == job
            clock.now += 5
            beat = store.jobs.heartbeat(job.id, {"stage": "build"})
            assert (beat.heartbeat, beat.progress, beat.cancel_requested) == (
                clock.now,
                {"stage": "build"},
                False,
            )
            assert store.jobs.request_cancel(job.id).state == "running"
            assert store.jobs.heartbeat(job.id).cancel_requested
            ended = store.jobs.finish(job.id, "failed", error={"code": "x"})
            assert (ended.state, ended.error, ended.result, ended.over) == (
                "failed",
                {"code": "x"},
                None,
                True,
            )
            refused(Conflict, lambda: store.jobs.heartbeat(job.id))
            refused(Conflict, lambda: store.jobs.claim(job.id))
            refused(NotFound, lambda: store.jobs.get("j999999999"))
            assert store.jobs.list(session=session) == (ended,)
            assert store.jobs.list(session=session, states=("running", "lost")) == ()
            assert job.id not in [lost.id for lost in store.jobs.reclaim_lost()]

    def test_skills_keep_their_history(self, tmp_path: Path) -> None:
        evidence = SkillEvidence(
            "rmsnorm-7f3a",
            "n3",
            "n1",
            "0" * 64,
            "cpu:test",
            1.4,
            (1.3, 1.5),
            "e3",
            "e1",
            "clean run",
            1.6,
        )
        bare = SkillEvidence("rmsnorm-7f3b", "n3", None, "0" * 64, "cpu:test", 1.1)
        abroad = dataclasses.replace(bare, origin="imported")
        new = NewSkill(
            title=f"Row blocks, kept in cache! {secrets.token_hex(3)}",
            mechanism="m",
            counter_indications="short rows",
            code="for (;;) {}",
            matches={"operators": ["aten.mean"]},
            signals=("memory_bound",),
            files={"kernel.py": "# é"},
            target="cpu",
        )
        with self.store(tmp_path) as store:
            skill, fresh = store.skills.propose(new, [evidence], author="me")
            assert fresh
            # nothing new, so no event
            assert store.skills.propose(new, [evidence, evidence]) == (skill, False)
            assert store.skills.propose(
                dataclasses.replace(new, title="Another"), [bare], same=lambda s: s.id == skill.id
            ) == (
                skill,
                False,
            )
            twin, fresh = store.skills.propose(dataclasses.replace(new, target="cuda"), [bare])
            assert fresh
            assert twin.id.startswith(skill.id + "_")
            assert store.skills.add_evidence(skill.id, [bare, abroad]) == 1
            before = store.skills.revision()
            accepted = store.skills.decide(
                skill.id, "accepted", "measured twice", author="gate", data={"n": 2}
            )
            assert store.skills.revision() != before
            assert accepted == dataclasses.replace(skill, state="accepted")
            assert store.skills.decide(skill.id, "accepted", "told again") == accepted
            assert store.skills.decide(skill.id, "retired", "late", expected="proposed") == accepted
            assert store.skills.get(skill.id) == accepted
            assert accepted in store.skills.list("accepted")
            assert store.skills.evidence(skill.id) == (evidence, bare, abroad)
            assert [(e.seq, e.kind, e.message) for e in store.skills.events(skill.id)] == [
                (1, "proposed", new.title),
                (2, "evidence", "1 measured use(s) of the same pattern: Another"),
                (3, "accepted", "measured twice"),
            ]
            store.skills.decide(skill.id, "contradicted", "it failed")
            assert (
                "retired"
                in refused(
                    Conflict, lambda: store.skills.decide(skill.id, "proposed", "again")
                ).hint
            )
            refused(NotFound, lambda: store.skills.get("nothing"))

    def test_skills_are_counted_where_they_are_shown_and_used(self, tmp_path: Path) -> None:
        name = f"skills/rows_{secrets.token_hex(3)}"
        with self.store(tmp_path) as store:
            session = opened(store).id
            ask = store.asks.add(
                session, EXPAND, "text", author=Author("me"), lease_s=60, skills=(name, name)
            )
            assert store.skill_uses.shown(session, ask.seq) == (name,)
            new = dataclasses.replace(
                new_node(store, "kernel", ask=ask.seq), skills={name: "shown"}
            )
            node = store.nodes.add(session, new)
            assert store.nodes.add(session, new) == node
            assert store.skill_uses.retrievals()[name] == 1
            assert store.skill_uses.uses(session) == (SkillUse(name, session, node.id, "shown"),)
            outcome = SkillOutcome(name, session, node.id, "correct", 1.2, (1.1, 1.3))
            store.skill_uses.add_outcomes([outcome])
            store.skill_uses.add_outcomes(
                [dataclasses.replace(outcome, status="incorrect", effect=None, interval=None)]
            )
            (kept,) = store.skill_uses.outcomes(name)
            assert dataclasses.replace(kept, created=0.0) == outcome

    def test_threads_share_a_store(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            session = opened(store).id
            news = [new_node(store, f"thread {i}") for i in range(24)]
            with ThreadPoolExecutor(4) as pool:
                nodes = list(pool.map(lambda new: store.nodes.add(session, new), news))
            assert sorted(n.seq for n in nodes) == list(range(1, 25))
            joined = NewSession(
                task=sample_task().digest, target="cpu", language=f"l{secrets.token_hex(3)}"
            )
            with ThreadPoolExecutor(4) as pool:
                sessions = list(pool.map(lambda _: store.sessions.join(joined), range(8)))
            assert len({record.id for record, _ in sessions}) == 1
            assert [known for _, known in sessions].count(False) == 1
