"""What the process tests run in other processes: `python -m tests.store.worker COMMAND HOME ...`.

Each prints "ready", waits for a line on stdin so that all start together, and answers in lines on
stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from kevolve_mcp.errors import BudgetFull, Conflict
from kevolve_mcp.search import AuthorId
from kevolve_mcp.store import NewSkill, SkillEvidence, Store
from kevolve_mcp.store.examples import EXPAND, new_node


def say(text: str) -> None:
    print(text, flush=True)


def ready() -> None:
    say("ready")
    sys.stdin.readline()


def opens(home: Path) -> None:
    """Open a home and name its tables' owner."""
    ready()
    with Store.open(home) as store:
        say(f"sessions {len(store.sessions.list())}")


def write(home: Path, session: str, name: str, limit: str) -> None:
    """Add nodes (each child of the one before) and say each one's id once it was acknowledged; for
    ever with limit 0."""
    with Store.open(home) as store:
        ready()
        parents: tuple[str, ...] = ()
        for i in range(int(limit)) if int(limit) else count():
            ask = store.asks.add(session, EXPAND, f"{name} {i}", author=AuthorId(name), lease_s=60)
            node = store.nodes.add(
                session, new_node(store, f"{name} {i}", parents=parents, ask=ask.seq)
            )
            parents = (node.id,)
            say(node.id)


def job(home: Path, session: str) -> None:
    """Start a job and wait to be killed."""
    with Store.open(home) as store:
        started = store.jobs.start("evaluate", session, {"candidate": "x"})
        say(started.id)
        sys.stdin.readline()


def hand_in(home: Path, session: str, name: str, count: str) -> None:
    """Start jobs that end with a node, and say which were let in."""
    with Store.open(home) as store:
        ready()
        for i in range(int(count)):
            say(_let_in(store, session, f"{name} {i}"))


def _let_in(store: Store, session: str, candidate: str) -> str:
    try:
        store.jobs.start("submit", session, {"candidate": candidate})
    except BudgetFull:
        return "full"
    return "in"


def claim(home: Path, identifier: str) -> None:
    """Try to get a lost job."""
    with Store.open(home) as store:
        ready()
        lost = [lost.id for lost in store.jobs.reclaim_lost()]
        try:
            store.jobs.claim(identifier)
        except Conflict:
            say(f"no {lost}")
        else:
            say("got")


def skills(home: Path, name: str, limit: str) -> None:
    """Propose skills that other writers propose as well, each with evidence of this writer, and say
    each one's id and title once it was acknowledged; for ever with limit 0."""
    with Store.open(home) as store:
        ready()
        for i in range(int(limit)) if int(limit) else count():
            new = NewSkill(
                title=f"pattern {i}",
                mechanism="m",
                target="cpu",
                language="cpp",
                files={"kernel.py": f"# {i}\n"},
            )
            found, _ = store.skills.propose(
                new, [SkillEvidence(name, f"n{i + 1}", None, "0" * 64, "cpu:test", 1.5, (1.4, 1.6))]
            )
            say(f"{found.id} {i}")


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "opens": opens,
        "write": write,
        "job": job,
        "hand_in": hand_in,
        "claim": claim,
        "skills": skills,
    }
    commands[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
