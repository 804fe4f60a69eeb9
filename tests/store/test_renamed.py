"""A home of an earlier version speaks the present words once it was opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import (
    JSON,
    Connection,
    Insert,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    insert,
    text,
)

import kevolve_mcp.store
from kevolve_mcp.search import (
    NOBODY,
    PARAMETER_SEARCH,
    AuthorId,
    LentKernel,
    Origin,
    StartKernel,
)
from kevolve_mcp.store import Store, notes
from kevolve_mcp.store.migrate import VERSION_TABLE


def renewed(home: Path, version: str, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What opening a home makes of one row of each table, which schema `version` wrote."""
    engine = create_engine(f"sqlite:///{home / 'kevolve.db'}")
    config = Config()
    config.set_main_option(
        "script_location", str(Path(kevolve_mcp.store.__file__).parent / "migrations")
    )
    with engine.begin() as connection:
        config.attributes.update(connection=connection, version_table=VERSION_TABLE)
        command.upgrade(config, version)
        for name, row in rows.items():
            connection.execute(_filled(connection, name, row))
    Store.open(home).close()
    with engine.connect() as connection:
        found = {
            t: dict(connection.execute(text(f"select * from {t}")).one()._mapping) for t in rows
        }
    engine.dispose()
    return found


def _filled(connection: Connection, name: str, row: dict[str, Any]) -> Insert:
    table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
    kinds = ((JSON, {}), (Text, ""), (String, ""))
    other = {
        c.name: next((v for k, v in kinds if isinstance(c.type, k)), 1)
        for c in table.columns
        if not c.nullable
    }
    return insert(table).values({**other, **row})


@pytest.mark.parametrize(
    ("old", "new"),
    [("cheated", "reward_hack"), ("flagged", "needs_review"), ("rejected", "invalid")],
)
def test_statuses(tmp_path: Path, old: str, new: str) -> None:
    found = renewed(
        tmp_path, "0004", {"evaluations": {"status": old}, "skill_outcomes": {"status": old}}
    )
    assert [row["status"] for row in found.values()] == [new, new]


@pytest.mark.parametrize(
    ("old", "new"), [("same", "equivalent"), ("unclear", "inconclusive"), ("faster", "faster")]
)
def test_verdicts(tmp_path: Path, old: str, new: str) -> None:
    data = {"name": "same", "verdict": old, "all_cores": {"verdict": old}}
    found = renewed(tmp_path, "0005", {"case_results": {"verdict": old, "data": data}})[
        "case_results"
    ]
    assert found["verdict"] == new
    assert json.loads(found["data"]) == {
        "name": "same",
        "verdict": new,
        "all_cores": {"verdict": new},
    }


def test_figures(tmp_path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {
        "baselines": {"roofline_us": 4.5},
        "evaluations": {"device_s": 2.5},
        "case_results": {
            "data": {"hot_us": 1.0, "call_us": 2.0, "roofline": 0.5, "error": {"$float": "nan"}}
        },
        "tasks": {"facts": {"cases": [{"name": "only", "roofline_us": 4.5}]}},
        "sessions": {
            "state": "open",
            "budget": {"device_s": 60.0},
            "options": {"budgets": [{"budget": {"device_s": 6.0}}]},
        },
        "jobs": {"state": "done", "payload": {"budget": {"device_s": 60.0}}},
    }
    found = renewed(tmp_path, "0006", rows)
    assert found["baselines"]["roofline_time_us"] == 4.5
    assert found["evaluations"]["device_seconds"] == 2.5
    data = {
        "warm_us": 1.0,
        "end_to_end_us": 2.0,
        "roofline_fraction": 0.5,
        "error": {"$float": "nan"},
    }
    assert json.loads(found["case_results"]["data"]) == data
    assert json.loads(found["tasks"]["facts"]) == {
        "cases": [{"name": "only", "roofline_time_us": 4.5}]
    }
    assert json.loads(found["sessions"]["budget"]) == {"device_seconds": 60.0}
    assert json.loads(found["sessions"]["options"]) == {
        "budgets": [{"budget": {"device_seconds": 6.0}}]
    }
    assert json.loads(found["jobs"]["payload"]) == {"budget": {"device_seconds": 60.0}}


def test_eligible(tmp_path: Path) -> None:
    found = renewed(tmp_path, "0007", {"evaluations": {"promotable": True}})
    assert found["evaluations"]["eligible"] == 1


def test_arguments(tmp_path: Path) -> None:
    rows = {
        "evaluations": {"until": "verify"},
        "jobs": {"state": "lost", "payload": {"session": "s", "inline": True}},
    }
    found = renewed(tmp_path, "0008", rows)
    assert found["evaluations"]["through"] == "verify"
    assert json.loads(found["jobs"]["payload"]) == {"session": "s", "include_files": True}


def test_provenance(tmp_path: Path) -> None:
    start = {"candidate": "0" * 64, "origin": "skill: rows", "note": "why", "draft": 2}
    lent = {"session": "s-1", "node": "n1", "similarity": 0.5}
    rows = {
        "asks": {
            "author": "agent via host@boot 12 345",
            "annotations": {**start, "why": "so", "injected": lent},
        },
        "nodes": {
            "origin": "task: a: b",
            "annotations": {**start, "author": "parameter search", "why": "so"},
        },
    }
    found = renewed(tmp_path, "0010", rows)
    assert notes.author_of(found["asks"]["author"]) == AuthorId("agent", "host@boot", 12, 345)
    assert notes.origin_of(found["nodes"]["origin"]) == Origin("task", "a: b")
    assert notes.of_ask(json.loads(found["asks"]["annotations"])) == notes.AskNotes(
        {"draft": 2},
        "so",
        StartKernel("0" * 64, Origin("skill", "rows"), "why"),
        LentKernel("s-1", "n1", 0.5),
    )
    assert notes.of_node(json.loads(found["nodes"]["annotations"])) == notes.NodeNotes(
        {"draft": 2, "why": "so"}, PARAMETER_SEARCH, None
    )


def test_what_had_no_author_and_no_origin_has_none(tmp_path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {
        "asks": {"author": "", "annotations": {}},
        "nodes": {"annotations": {}},
    }
    found = renewed(tmp_path, "0010", rows)
    assert notes.author_of(found["asks"]["author"]) == NOBODY
    assert notes.origin_of(found["nodes"]["origin"]) is None
    assert notes.of_node(json.loads(found["nodes"]["annotations"])).author == NOBODY


def test_evaluations_are_counted_by_session(tmp_path: Path) -> None:
    """The first evaluation of session s-1 was the only one of the home."""
    rows: dict[str, dict[str, Any]] = {
        "evaluations": {"id": 90, "session": "s-1"},
        "sessions": {"id": "s-1", "state": "finished", "outcome": {"confirmed": "e90"}},
        "skill_evidence": {"session": "s-2", "evaluation": "e90", "parent_evaluation": ""},
        "jobs": {
            "state": "done",
            "session": "s-1",
            "result": {"evaluation": {"id": "e90"}, "node": {"id": "n1", "evaluation_id": "e91"}},
        },
    }
    found = renewed(tmp_path, "0011", rows)
    assert found["evaluations"]["seq"] == 1
    assert json.loads(found["sessions"]["outcome"]) == {"confirmed": "e1"}
    assert found["skill_evidence"]["evaluation"] == "s-1/e1"
    assert json.loads(found["jobs"]["result"]) == {
        "evaluation": {"id": "e1"},
        "node": {"id": "n1", "evaluation_id": "e91"},
    }


def test_an_evaluation_outside_of_sessions_keeps_its_number(tmp_path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {
        "evaluations": {"id": 90},
        "jobs": {"state": "done", "result": {"evaluation": {"id": "e90"}}},
    }
    found = renewed(tmp_path, "0011", rows)
    assert found["evaluations"]["seq"] is None
    assert json.loads(found["jobs"]["result"]) == {"evaluation": {"id": "x90"}}
