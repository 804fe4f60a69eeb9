"""Places of the evaluation budget: who takes one, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.types import Budget
from kevolve_mcp.errors import BudgetFull, Conflict
from kevolve_mcp.search import AuthorId
from kevolve_mcp.store import Store
from kevolve_mcp.store.examples import (
    EXPAND,
    Clock,
    new_node,
    opened,
    refused,
    sample_candidate,
    sample_evaluation,
    sample_task,
)

from .conftest import Start, together


def payload(text: str, ask: int | None = None) -> dict[str, object]:
    return {"candidate": sample_candidate(text).digest, "ask": ask, "parents": []}


def test_four_processes_get_as_many_places_as_there_are(tmp_path: Path, worker: Start) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store, budget=Budget(evaluations=25)).id
        answers = together([worker("hand_in", tmp_path, session, f"w{i}", 10) for i in range(4)])
        assert sum(line == "in" for lines in answers for line in lines) == 25
        assert sum(line == "full" for lines in answers for line in lines) == 15
        # some of the processes have ended with their jobs under way: these are run again
        assert len(store.sessions.demand(session).measuring) == 25


def test_a_job_gives_its_place_back_or_leaves_it_to_its_node(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store, budget=Budget(evaluations=1)).id
        job = store.jobs.start("submit", session, payload("a"))
        error = refused(BudgetFull, lambda: store.jobs.start("submit", session, payload("b")))
        assert job.id in error.message
        store.jobs.start("profile", session, payload("b"))
        store.jobs.finish(job.id, "failed", error={"code": "x"})
        job = store.jobs.start("submit", session, payload("b"))
        store.nodes.add(session, new_node(store, "b"))
        # its node is there, the job not over yet: one place, not two
        demand = store.sessions.demand(session)
        assert (demand.spent.evaluations, demand.measuring) == (1, ())
        refused(BudgetFull, lambda: store.jobs.start("submit", session, payload("c")))
        # measured again, it stays the node that it is
        store.jobs.start("submit", session, payload("b"))
        store.sessions.finish(session, "finished", "enough")
        with pytest.raises(Conflict, match="is finished"):
            store.jobs.start("submit", session, payload("d"))


def test_a_node_without_a_job_takes_what_jobs_and_asks_leave(tmp_path: Path) -> None:
    clock = Clock()
    with Store.open(tmp_path, clock=clock) as store:
        session = opened(store, budget=Budget(evaluations=3)).id
        ask = store.asks.add(session, EXPAND, "1", author=AuthorId("a"), lease_s=60)
        store.jobs.start("submit", session, payload("a"))
        store.nodes.add(session, new_node(store, "b"), "left_over")
        refused(BudgetFull, lambda: store.nodes.add(session, new_node(store, "c"), "left_over"))
        # an ask keeps none from an author, and the answer to it that is measured counts once
        store.jobs.start("submit", session, payload("d", ask.seq))
        demand = store.sessions.demand(session)
        assert (len(demand.measuring), demand.asks_measured) == (2, frozenset({ask.seq}))
        refused(BudgetFull, lambda: store.nodes.add(session, new_node(store, "c"), "free"))
        assert len(store.nodes.tree(session).nodes) == 1
        assert store.sessions.spent(session).evaluations == 1


def test_an_ask_counts_until_its_lease_runs_out(tmp_path: Path) -> None:
    clock = Clock()
    with Store.open(tmp_path, clock=clock) as store:
        session = opened(store, budget=Budget(evaluations=1)).id
        store.asks.add(session, EXPAND, "1", author=AuthorId("a"), lease_s=60)
        refused(BudgetFull, lambda: store.nodes.add(session, new_node(store, "c"), "left_over"))
        clock.now += 61
        store.nodes.add(session, new_node(store, "c"), "left_over")


def test_a_known_evaluation_needs_no_place(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store, budget=Budget(evaluations=1)).id
        store.nodes.add(session, new_node(store, "a"))
        new = new_node(store, "b")
        known = store.evaluations.put(sample_evaluation(sample_candidate("b"), sample_task()))
        store.nodes.add(session, new_node(store, "b", evaluation=known), "free")
        refused(BudgetFull, lambda: store.nodes.add(session, new_node(store, "c"), "free"))
        assert new.candidate in {node.candidate for node in store.nodes.tree(session).nodes}
