"""Skills that several processes write, and a home whose skills an earlier version kept."""

from __future__ import annotations

import random
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

import kevolve_mcp.store
from kevolve_mcp.store import Store
from kevolve_mcp.store.migrate import VERSION_TABLE

from .conftest import Start, together


def test_two_writers_of_the_same_skills_make_each_once(tmp_path: Path, worker: Start) -> None:
    Store.open(tmp_path).close()
    answers = together([worker("skills", tmp_path, f"session-{i}", 20) for i in range(2)])
    assert answers[0] == answers[1]
    with Store.open(tmp_path) as store:
        skills = store.skills.list()
        assert sorted(s.title for s in skills) == sorted(f"pattern {i}" for i in range(20))
        for skill in skills:
            assert {e.session for e in store.skills.evidence(skill.id)} == {
                "session-0",
                "session-1",
            }
            assert [e.kind for e in store.skills.events(skill.id)] == ["proposed", "evidence"]


def test_a_killed_writer_leaves_whole_skills(tmp_path: Path, worker: Start) -> None:
    Store.open(tmp_path).close()
    acknowledged: set[tuple[str, str, str]] = set()
    dice = random.Random(11)
    for turn in range(3):
        process = worker("skills", tmp_path, f"session-{turn}", 0)
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.readline() if turn else ""  # on a busy machine the first takes long
        time.sleep(dice.uniform(0.02, 0.15))  # any moment will do
        process.kill()
        lines = (said + process.communicate()[0]).split("\n")[:-1]
        acknowledged |= {(f"session-{turn}", *line.split()) for line in lines}  # type: ignore[misc]
    with Store.open(tmp_path) as store:
        titles = [s.title for s in store.skills.list()]
        assert len(titles) == len(set(titles))
        for skill in store.skills.list():
            evidence = store.skills.evidence(skill.id)
            assert skill.files["kernel.py"]
            assert len({e.session for e in evidence}) == len(evidence) >= 1
            assert len(store.skills.events(skill.id)) == len(evidence)
        for session, skill_id, i in acknowledged:
            assert store.skills.get(skill_id).title == f"pattern {i}"
            assert session in {e.session for e in store.skills.evidence(skill_id)}
    assert acknowledged


def test_skills_of_an_earlier_version_are_kept(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'kevolve.db'}")
    config = Config()
    config.set_main_option(
        "script_location", str(Path(kevolve_mcp.store.__file__).parent / "migrations")
    )
    with engine.begin() as connection:
        config.attributes.update(connection=connection, version_table=VERSION_TABLE)
        command.upgrade(config, "0003")
        for name, state in (("old", "proposed"), ("bad", "rejected")):
            columns = (
                "id, title, mechanism, preconditions, pattern, target, language, signals, files, "
                "state, created"
            )
            values = (
                f"'{name}', 't', 'm', 'p', 'for (;;)', 'cpu', 'cpp', '[]', '{{}}', '{state}', 1.0"
            )
            connection.execute(text(f"insert into skills ({columns}) values ({values})"))
        columns = (
            "skill, seq, session, node, task, device, effect, evaluation, parent_evaluation, note, "
            "created"
        )
        values = "'old', 1, 's', 'n1', '0', 'cpu', 1.5, 'e1', '', '', 1.0"
        connection.execute(text(f"insert into skill_evidence ({columns}) values ({values})"))
    engine.dispose()
    with Store.open(tmp_path) as store:
        assert (store.skills.get("old").code, store.skills.get("old").matches) == ("for (;;)", {})
        assert store.skills.get("bad").state == "retired"
        (kept,) = store.skills.evidence("old")
        assert (kept.origin, kept.predicted) == ("", None)
        assert store.skills.decide("old", "accepted", "") != store.skills.decide(
            "old", "contradicted", ""
        )
