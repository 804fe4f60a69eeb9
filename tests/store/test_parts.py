"""Parts whose behaviour needs no second process: baselines, similar tasks, owners, records of other
versions."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.types import PROTOCOL_VERSION, Operator, Policy, Status
from kevolve_mcp.errors import StoreError
from kevolve_mcp.store import NewSession, Owner, SessionOutcome, Store
from kevolve_mcp.store.examples import (
    ENVIRONMENT,
    Clock,
    new_node,
    opened,
    refused,
    sample_candidate,
    sample_evaluation,
    sample_task,
)
from kevolve_mcp.store.owner import alive, this_process
from kevolve_mcp.store.signature import Signature, overlap


def test_baselines_are_those_of_the_asked_environment(tmp_path: Path) -> None:
    task = sample_task()
    faster = dataclasses.replace(
        task,
        cases=(
            dataclasses.replace(task.cases[0], baselines_us={"eager": 5.0}, roofline_time_us=1.0),
            task.cases[1],
        ),
    )
    elsewhere = dataclasses.replace(ENVIRONMENT, device="cpu:other")
    with Store.open(tmp_path) as store:
        store.tasks.put(task, ENVIRONMENT)
        store.tasks.put(faster, elsewhere)
        store.tasks.put(faster, elsewhere)
        assert store.tasks.get(task.digest, ENVIRONMENT) == task
        assert store.tasks.get(task.digest, elsewhere) == faster
        assert store.tasks.list() == (faster,)
    with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection:
        assert connection.execute("select count(*) from baselines").fetchone() == (4,)


def test_overlap_is_a_multiset_jaccard_index() -> None:
    assert overlap({"a": 2, "b": 1}, {"a": 1, "c": 1}) == pytest.approx(1 / 4)
    assert overlap({"a": 2}, {"a": 2}) == 1.0
    assert overlap({}, {}) == 0.0


def test_similar_tasks_lend_their_best_kernels(tmp_path: Path) -> None:
    names = {"same": {"mul": 2, "rsqrt": 1}, "near": {"mul": 2}, "far": {"conv": 9}}
    with Store.open(tmp_path) as store:
        sessions = {}
        for name, target, language in [
            ("same", "cuda", "cpp"),
            ("near", "cpu", "cpp"),
            ("far", "cpu", "cpp"),
            ("same", "cpu", "triton"),
        ]:
            task = sample_task(name, names[name])
            store.tasks.put(task)
            session = store.sessions.create(
                NewSession(task=task.digest, target=target, language=language)
            )
            sessions[name, target, language] = session.id
            store.nodes.add(session.id, new_node(store, f"{name} slow", name, 1.2))
            store.nodes.add(session.id, new_node(store, f"{name} fast", name, 1.8))
            evaluation = sample_evaluation(
                sample_candidate(f"{name} odd"), task, 9.0, eligible=False
            )
            store.nodes.add(session.id, new_node(store, f"{name} odd", name, evaluation=evaluation))
        asked = sample_task("asked", {"mul": 2, "rsqrt": 1})
        found = store.similar(asked, "cpu", "cpp", 5)
        assert [
            (kernel.task.name, kernel.target, kernel.node.annotations, kernel.fitness)
            for kernel in found
        ] == [
            ("near", "cpu", {}, 1.8),
            ("same", "cuda", {}, 1.8),
            ("same", "cpu", {}, 1.8),
        ]
        assert found[0].similarity == pytest.approx(2 / 3)
        assert found[0].candidate == sample_candidate("near fast")
        assert found[0].session == sessions["near", "cpu", "cpp"]
        plain = sample_task("plain", {"mul": 2})
        assert [
            k.task.name
            for k in store.similar(plain, "cpu", "cpp", 1, exclude_session=found[0].session)
        ] == ["same"]
        assert store.similar(sample_task("other", {"softmax": 1}), "cpu", "cpp") == []
        assert store.similar(asked, "cpu", "cpp", before=0.0) == []


def test_what_a_sessions_end_refused_is_not_lent(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store, "norm")
        fast = store.nodes.add(session.id, new_node(store, "fast", "norm", 1.8))
        slow = store.nodes.add(session.id, new_node(store, "slow", "norm", 1.2))
        confirmed = store.evaluations.put(
            sample_evaluation(sample_candidate("slow"), sample_task("norm"), 1.1, purpose="confirm")
        )
        outcome = SessionOutcome(
            node=slow.id,
            confirmed=confirmed,
            measured=confirmed,
            package="",
            rejected={fast.id: "wrong in fresh processes"},
        )
        assert [k.node.id for k in store.similar(sample_task("norm"), "cpu", "cpp")] == [fast.id]
        store.sessions.finish(session.id, "finished", "done", outcome)
        (kernel,) = store.similar(sample_task("norm"), "cpu", "cpp")
        assert (kernel.node.id, kernel.confirmed, kernel.fitness, kernel.similarity) == (
            slow.id,
            1.1,
            1.1,
            1.0,
        )


def test_what_a_confirmation_proved_wrong_is_neither_best_nor_lent(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session, task = opened(store, "norm"), sample_task("norm")
        fast = store.nodes.add(session.id, new_node(store, "fast", "norm", 1.8))
        slow = store.nodes.add(session.id, new_node(store, "slow", "norm", 1.2))

        def confirmed(status: Status, target: str = "cpu", **changes: Any) -> str:
            found = sample_evaluation(
                sample_candidate("fast"), task, 0.0, purpose="confirm", status=status, target=target
            )
            return store.evaluations.put(dataclasses.replace(found, **changes))

        def best() -> tuple[str | None, str, str]:
            (summary,) = store.sessions.list()
            (lent,) = store.similar(task, "cpu", "cpp")
            return summary.best, lent.node.id, store.nodes.get(session.id, fast.id).refuted

        confirmed("timed_out")  # which may be the machine's
        confirmed("incorrect", "cuda")
        confirmed("incorrect", policy=str(Policy(tolerance="bitwise")))
        assert best() == (fast.id, fast.id, "")
        wrong = confirmed("incorrect")
        assert best() == (slow.id, slow.id, wrong)
        tree = store.nodes.tree(session.id)
        assert tree.by_id[fast.id].status == "correct"
        assert tree.best() == slow
        confirmed("correct")  # repeating does not help
        assert best() == (slow.id, slow.id, wrong)
        later = {"protocol": PROTOCOL_VERSION + 1}  # an evaluator that was corrected does
        confirmed("correct", **later)
        assert best() == (fast.id, fast.id, "")
        doubt = confirmed("needs_review", **later)
        assert best() == (slow.id, slow.id, doubt)
        store.approvals.add(session.id, fast.id, "R. Viewer", "seen")
        assert best() == (fast.id, fast.id, "")


def _graph(*rows: tuple[str, tuple[int, ...], str, int]) -> Signature:
    return Signature.of(
        dataclasses.replace(sample_task(), graph=tuple(Operator(*row) for row in rows))
    )


def test_axes_and_the_order_of_operators_decide_how_alike_tasks_are() -> None:
    rows = _graph(("mul", (-1,), "", 0), ("sum", (0,), "last", 512), ("div", (-1, 1), "", 0))
    longer = _graph(("mul", (-1,), "", 0), ("sum", (0,), "last", 4096), ("div", (-1, 1), "", 0))
    columns = _graph(("mul", (-1,), "", 0), ("sum", (0,), "inner", 512), ("div", (-1, 1), "", 0))
    turned = _graph(("div", (-1,), "", 0), ("sum", (0,), "last", 512), ("mul", (-1, 1), "", 0))
    assert rows.similarity(rows) == pytest.approx(1.0)
    assert 1.0 > rows.similarity(longer) > rows.similarity(turned) > 0
    assert rows.similarity(longer) > rows.similarity(columns) > 0


def test_owners_are_told_apart() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert alive(me) is True
    assert alive(dataclasses.replace(me, started=me.started + 1)) is False  # the pid was used again
    assert alive(Owner("elsewhere", me.pid, me.started)) is None


def test_an_owner_out_of_sight_is_lost_without_heartbeat(tmp_path: Path) -> None:
    clock = Clock()
    with Store.open(tmp_path, clock=clock) as store:
        job = store.jobs.start("evaluate", opened(store).id)
        with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection, connection:
            connection.execute("update jobs set owner_host = 'elsewhere'")
        clock.now += 60
        assert store.jobs.reclaim_lost() == ()
        clock.now += 61
        assert [lost.id for lost in store.jobs.reclaim_lost()] == [job.id]
        assert store.jobs.claim(job.id).owner == this_process()


def test_an_evaluation_of_another_version_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store).id
        node = store.nodes.add(session, new_node(store))
        with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection, connection:
            connection.execute("update signals set name = 'no_longer_known' where position = 0")
        error = refused(StoreError, lambda: store.evaluations.get(session, node.evaluation))
        assert "no_longer_known" in error.message
        assert store.nodes.tree(session).nodes[0].signals[0] == "no_longer_known"


def test_a_changed_text_is_not_handed_out(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        digest = store.candidates.put(sample_candidate())
        other = store.artifacts.put("other")
        with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection, connection:
            connection.execute("update candidates set source = ?", (other,))
        refused(StoreError, lambda: store.candidates.get(digest))
