"""Several processes on one home, and processes that die."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from kevolve_mcp.errors import Conflict
from kevolve_mcp.store import Store
from kevolve_mcp.store.examples import opened

from .conftest import Start, together


def test_four_writers_get_consecutive_seqs(tmp_path: Path, worker: Start) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store).id
    answers = together([worker("write", tmp_path, session, f"w{i}", 25) for i in range(4)])
    with Store.open(tmp_path) as store:
        tree = store.nodes.tree(session)
    assert [node.seq for node in tree.nodes] == list(range(1, 101))
    assert [ask.seq for ask in tree.asks] == list(range(1, 101))
    assert sorted(line for lines in answers for line in lines) == sorted(
        node.id for node in tree.nodes
    )
    assert all(
        tree.trajectory(lines[-1])[0].parents == () and len(tree.trajectory(lines[-1])) == 25
        for lines in answers
    )


def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path, worker: Start) -> None:
    """A second writer lives on meanwhile: the dead one must not block it either."""
    with Store.open(tmp_path) as store:
        session = opened(store).id
    acknowledged: set[str] = set()
    dice = random.Random(7)
    for turn in range(6):
        writers = [
            worker("write", tmp_path, session, f"turn {turn}", 0),
            worker("write", tmp_path, session, f"bystander {turn}", 15),
        ]
        for process in writers:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
        for process in writers:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        time.sleep(dice.uniform(0.0, 0.15))  # any moment will do
        writers[0].kill()
        outputs = [process.communicate()[0] for process in writers]
        assert writers[1].returncode == 0
        acknowledged |= {line for output in outputs for line in output.split("\n")[:-1]}
        with Store.open(tmp_path) as store:
            tree = store.nodes.tree(session)
            assert acknowledged <= {node.id for node in tree.nodes}
            assert [node.seq for node in tree.nodes] == list(range(1, len(tree.nodes) + 1))
            assert tree.answered() <= {ask.seq for ask in tree.asks}
            for node in tree.nodes:
                assert store.candidates.get(node.candidate).source
                assert (
                    store.evaluations.get(session, node.evaluation).evaluation.candidate
                    == node.candidate
                )
            for ask in tree.asks:
                assert store.asks.shown(session, ask.seq)
            assert store.sessions.spent(session).evaluations == len(tree.nodes)
    assert len(acknowledged) >= 6 * 15


def test_one_of_several_claims_a_lost_job(tmp_path: Path, worker: Start) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store).id
        owner = worker("job", tmp_path, session)
        assert owner.stdout is not None
        job = owner.stdout.readline().strip()
        assert store.jobs.reclaim_lost() == ()
        with pytest.raises(Conflict, match="no longer belongs"):
            store.jobs.heartbeat(job)
        owner.kill()
        owner.wait()
        answers = together([worker("claim", tmp_path, job) for _ in range(3)])
        assert sorted(line[:3] for (line,) in answers) == ["got", "no ", "no "]
        again = store.jobs.get(job)
        assert (again.attempts, again.payload) == (2, {"candidate": "x"})
        # the one who claimed it has ended, too
        assert [lost.id for lost in store.jobs.reclaim_lost()] == [job]
        assert store.jobs.request_cancel(job).state == "cancelled"


def test_an_unreaped_owner_is_dead(tmp_path: Path, worker: Start) -> None:
    with Store.open(tmp_path) as store:
        owner = worker("job", tmp_path, opened(store).id)
        assert owner.stdout is not None
        job = owner.stdout.readline().strip()
        owner.kill()
        # its end is closed, so it is gone but for its entry in the process table
        assert owner.stdout.read() == ""
        deadline = time.monotonic() + 30
        while not store.jobs.reclaim_lost() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.jobs.get(job).state == "lost"


def test_several_processes_open_a_fresh_home(tmp_path: Path, worker: Start) -> None:
    assert (
        together([worker("opens", tmp_path / "new home") for _ in range(4)]) == [["sessions 0"]] * 4
    )
