"""Stored values come back unchanged, and inconsistent values are refused."""

from __future__ import annotations

import dataclasses
import math
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.types import Budget, CaseResult, Goal, Policy, StageReport
from kevolve_mcp.errors import NotFound, UsageError
from kevolve_mcp.search.provenance import USER_FILE, AuthorId
from kevolve_mcp.search.tree import ROOT

from ..examples import (
    ENVIRONMENT,
    EXPAND,
    new_node,
    opened,
    refused,
    sample_candidate,
    sample_evaluation,
    sample_task,
)
from ..records import Measured, NewNode, NewSession
from ..remembered import SessionOptions
from .suite import Suite


class RoundTrips(Suite):
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
                session.id, EXPAND, "write a kernel: é", author=AuthorId("me"), lease_s=60
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
            assert store.evaluations.get(session.id, identifier).evaluation == evaluation
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
            stored = store.evaluations.get(None, store.evaluations.put(odd)).evaluation
            assert stored.cases == odd.cases
            assert stored.stages == odd.stages
            assert stored.message == "nul \\x00 and \\ud800"

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
            stored = store.evaluations.find(evaluation.key)
            assert stored is not None
            assert (stored.id, stored.evaluation) == (identifier, evaluation)
            assert (
                store.evaluations.find(dataclasses.replace(evaluation, purpose="confirm").key)
                is None
            )
            assert [
                e.evaluation for e in store.evaluations.list(task=task.digest, device="cpu:other")
            ][:1] == [other_device]
            assert store.evaluations.measured(None, [identifier, "x999999"]) == {
                identifier: Measured(
                    evaluation.target,
                    evaluation.seconds,
                    evaluation.device_seconds,
                    evaluation.cases,
                )
            }

    def test_a_session_counts_its_evaluations_from_one(self, tmp_path: Path) -> None:
        task, candidate = sample_task(), sample_candidate()
        with self.store(tmp_path) as store:
            one, other = opened(store).id, opened(store).id
            store.candidates.put(candidate)
            nobodys = store.evaluations.put(sample_evaluation(candidate, task, 1.1))
            assert nobodys.startswith("x")
            for session, figure in ((one, 1.2), (one, 1.3), (other, 1.4)):
                store.evaluations.put(sample_evaluation(candidate, task, figure), session)

            def figure_of(session: str | None, identifier: str) -> float | None:
                return store.evaluations.get(session, identifier).evaluation.fitness

            assert [figure_of(one, f"e{seq}") for seq in (1, 2)] == [1.2, 1.3]
            assert figure_of(other, "e1") == figure_of(None, f"{other}/e1") == 1.4
            assert figure_of(one, f"{other}/e1") == 1.4
            assert figure_of(other, nobodys) == figure_of(None, nobodys) == 1.1
            assert set(store.evaluations.measured(other, ["e1", f"{one}/e2", "e9"])) == {
                "e1",
                f"{one}/e2",
            }
            newest = store.evaluations.find(sample_evaluation(candidate, task).key, one)
            assert newest is not None
            assert (newest.id, newest.session) == (f"{other}/e1", other)
            taken = store.nodes.add(one, new_node(store, evaluation=f"{other}/e1"))
            assert (taken.evaluation, taken.fitness) == (f"{other}/e1", 1.4)
            refused(UsageError, lambda: store.evaluations.get(None, "e1"))
            refused(NotFound, lambda: store.evaluations.get(other, "e2"))
            refused(NotFound, lambda: store.evaluations.get(None, f"x{10**8}"))
            refused(NotFound, lambda: store.evaluations.get("no-such", "e1"))

    def test_telling_twice_gives_the_first_node(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            session = opened(store).id
            ask = store.asks.add(session, EXPAND, "", author=AuthorId("me"), lease_s=60)
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
