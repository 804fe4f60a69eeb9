"""Who answers an ask, and who runs a job."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.search.provenance import AuthorId

from ..examples import (
    EXPAND,
    Clock,
    new_node,
    opened,
    refused,
)
from ..records import NewAsk
from .suite import Suite


class LeasesAndJobs(Suite):
    def test_leases(self, tmp_path: Path) -> None:
        clock = Clock()
        with self.store(tmp_path, clock) as store:
            session = opened(store).id
            asks = store.asks.add_all(
                session,
                [NewAsk(EXPAND, "1"), NewAsk(EXPAND, "2", held=("task", "rules"))],
                author=AuthorId("a"),
                lease_s=60,
                first_seq=1,
            )
            assert [ask.id for ask in asks] == ["a1", "a2"]
            assert store.asks.held_by(session, AuthorId("a")) == {1: (), 2: ("task", "rules")}
            store.asks.rewrite(session, 2, "anew", author=AuthorId("b"), held=("task",))
            assert store.asks.held_by(session, AuthorId("a"))[2] == ("task", "rules"), (
                "b does not have it"
            )
            store.asks.rewrite(session, 2, "2", author=AuthorId("a"), held=("task",))
            assert store.asks.held_by(session, AuthorId("a"))[2] == ("task",)
            refused(
                Conflict,
                lambda: store.asks.add(
                    session, EXPAND, "", author=AuthorId("b"), lease_s=60, seq=2
                ),
            )
            refused(Conflict, lambda: store.asks.take(session, 1, author=AuthorId("b"), lease_s=60))
            refused(NotFound, lambda: store.asks.take(session, 9, author=AuthorId("b"), lease_s=60))
            assert store.asks.take_expired(session, author=AuthorId("b"), lease_s=60) is None
            assert (
                store.asks.take(session, 1, author=AuthorId("a"), lease_s=90).lease_until
                == clock.now + 90
            )
            clock.now += 70
            assert [ask.seq for ask in store.asks.open(session)] == [1]
            taken = store.asks.take_expired(session, author=AuthorId("b"), lease_s=60)
            assert taken is not None
            assert (taken.seq, taken.author) == (2, AuthorId("b"))
            store.asks.release(session, 2, author=AuthorId("a"))  # no longer a's: nothing happens
            assert store.asks.take_expired(session, author=AuthorId("c"), lease_s=60) is None
            store.asks.release(session, 2, author=AuthorId("b"))
            assert store.asks.take(session, 2, author=AuthorId("c"), lease_s=60).author == AuthorId(
                "c"
            )
            store.nodes.add(session, new_node(store, "late", ask=2))
            clock.now += 1000
            refused(Conflict, lambda: store.asks.take(session, 2, author=AuthorId("c"), lease_s=60))
            assert [
                ask.seq
                for ask in (store.asks.take_expired(session, author=AuthorId("d"), lease_s=1),)
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
