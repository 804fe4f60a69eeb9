"""The tables. A change here needs a migration in `migrations/versions` and a new HEAD in `migrate`;
a test compares them.

JSON and text columns accept whatever an untrusted compiler log may contain: non-finite numbers, NUL
characters and lone surrogates, which some databases refuse.
"""

from __future__ import annotations

import json
import math
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

_NUMBER = "$float"


class PlainText(TypeDecorator[str]):
    """Text with NUL characters and lone surrogates written as escapes."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape on writing; reading does not undo it."""
        return (
            None
            if value is None
            else value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
        )


def dump_json(value: Any) -> str:
    """Return ASCII JSON in which a non-finite number is an object {"$float": "nan"}."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def load_json(text: str | bytes) -> Any:
    """Read the JSON of `dump_json`; some drivers return bytes."""
    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, object_hook=_infinite) if _NUMBER in text else json.loads(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: repr(value)}
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _infinite(value: dict[str, Any]) -> Any:
    return float(value[_NUMBER]) if value.keys() == {_NUMBER} else value


def _digest(name: str, *args: Any, **kwargs: Any) -> Column[str]:
    return Column(name, String(64), *args, nullable=False, **kwargs)


def _time(name: str = "created") -> Column[float]:
    return Column(name, Float(53), nullable=False)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

tasks = Table(
    "tasks",
    metadata,
    _digest("digest", primary_key=True),
    Column("name", PlainText, nullable=False),
    _digest("source"),  # artifact
    Column("operators", JSON, nullable=False),
    Column("facts", JSON, nullable=False),  # the Task without its source
    _time(),
)

candidates = Table(
    "candidates",
    metadata,
    _digest("digest", primary_key=True),
    Column("language", String(40), nullable=False),
    _digest("source"),  # artifact
    _time(),
)

environments = Table(
    "environments",
    metadata,
    _digest("digest", primary_key=True),
    Column("device", PlainText, nullable=False),
    Column("toolchain", PlainText, nullable=False),
    Column("data", JSON, nullable=False),
    _time(),
)

baselines = Table(  # what opening a task measured, per case; the newest row counts
    "baselines",
    metadata,
    Column("id", Integer, primary_key=True),
    _digest("task"),
    Column("environment", String(64), ForeignKey("environments.digest")),
    Column("case_name", PlainText, nullable=False),
    Column("microseconds", JSON, nullable=False),  # by baseline name
    Column("roofline_time_us", Float(53), nullable=False),
    _time(),
    ForeignKeyConstraint(["task"], ["tasks.digest"]),
    Index(None, "task", "id"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(80), primary_key=True),
    _digest("task"),
    Column("target", String(80), nullable=False),
    Column("language", String(40), nullable=False),
    Column("goal", JSON, nullable=False),
    Column("budget", JSON, nullable=False),
    Column("policy", JSON, nullable=False),
    Column("selection", String(80), nullable=False),
    Column("seed", String(40), nullable=False),  # text: seeds may exceed 64 bits
    Column("python", PlainText, nullable=False),
    Column("options", JSON, nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", PlainText, nullable=False),
    Column("outcome", JSON, nullable=False),
    _time(),
    Column("finished", Float(53)),
    ForeignKeyConstraint(["task"], ["tasks.digest"]),
    CheckConstraint("state in ('open', 'finished', 'abandoned')", name="state"),
    Index(None, "state", "task"),
)

asks = Table(
    "asks",
    metadata,
    Column("session", String(80), ForeignKey("sessions.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("parents", JSON, nullable=False),
    Column("memory", String(20), nullable=False),
    Column("role", String(20), nullable=False),
    Column("annotations", JSON, nullable=False),
    _digest("shown"),  # artifact
    Column("held", JSON, nullable=False, server_default="[]"),  # keys of what the text has in full
    Column("author", PlainText, nullable=False),
    _time(),
    _time("lease_until"),
    Column("taken", Float(53)),  # when its current author took it; NULL while it is free
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Integer, primary_key=True),
    _digest("key", index=True),
    _digest("candidate"),
    _digest("task"),
    Column("session", String(80), ForeignKey("sessions.id")),
    Column("seq", Integer),  # in its session, from 1; NULL without one
    _digest("environment"),
    Column("device", PlainText, nullable=False),
    Column("language", String(40), nullable=False),
    Column("target", String(80), nullable=False),
    Column("purpose", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("message", PlainText, nullable=False),
    Column("policy", PlainText, nullable=False),
    Column("through", String(20), nullable=False),
    Column("protocol", Integer, nullable=False),
    Column("fitness", Float(53)),
    Column("eligible", Boolean, nullable=False),
    Column("seconds", Float(53), nullable=False),
    Column("device_seconds", Float(53), nullable=False),
    Column("stages", JSON, nullable=False),
    _time(),
    ForeignKeyConstraint(["candidate"], ["candidates.digest"]),
    ForeignKeyConstraint(["task"], ["tasks.digest"]),
    ForeignKeyConstraint(["environment"], ["environments.digest"]),
    Index(None, "task", "device"),
    Index(None, "session", "seq", unique=True),
    Index(None, "candidate"),
)

case_results = Table(
    "case_results",
    metadata,
    Column(
        "evaluation", Integer, ForeignKey("evaluations.id"), primary_key=True, autoincrement=False
    ),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", PlainText, nullable=False),
    Column("correct", Boolean, nullable=False),
    Column("speedup", Float(53)),
    Column("latency_us", Float(53)),
    Column("verdict", String(20)),
    # the whole CaseResult; the columns above repeat parts of it for queries
    Column("data", JSON, nullable=False),
)

signals = Table(
    "signals",
    metadata,
    Column(
        "evaluation", Integer, ForeignKey("evaluations.id"), primary_key=True, autoincrement=False
    ),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String(80), nullable=False, index=True),
    Column("message", PlainText, nullable=False),
    Column("evidence", JSON, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("session", String(80), ForeignKey("sessions.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    _digest("candidate"),
    Column("evaluation", Integer, ForeignKey("evaluations.id"), nullable=False),
    Column("ask", Integer),
    Column("role", String(20), nullable=False),
    Column("origin", PlainText),
    Column("hypothesis", PlainText, nullable=False),
    Column("predicted_speedup", Float(53)),
    Column("rationale", PlainText, nullable=False),
    Column("annotations", JSON, nullable=False),
    Column("params", JSON, nullable=False),
    Column("structure", String(80), nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("usd", Float(53), nullable=False),
    _time(),
    ForeignKeyConstraint(["candidate"], ["candidates.digest"]),
    ForeignKeyConstraint(["session", "ask"], ["asks.session", "asks.seq"]),
    UniqueConstraint("session", "ask", "candidate"),
    Index(None, "evaluation"),
)

node_parents = Table(
    "node_parents",
    metadata,
    Column("session", String(80), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer, nullable=False),
    ForeignKeyConstraint(["session", "seq"], ["nodes.session", "nodes.seq"]),
    ForeignKeyConstraint(["session", "parent"], ["nodes.session", "nodes.seq"]),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", String(80), nullable=False, index=True),
    Column("node", Integer, nullable=False),
    Column("author", PlainText, nullable=False),
    Column("note", PlainText, nullable=False),
    _time(),
    ForeignKeyConstraint(["session", "node"], ["nodes.session", "nodes.seq"]),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("session", String(80), ForeignKey("sessions.id")),
    Column("payload", JSON, nullable=False),
    Column("state", String(20), nullable=False),
    Column("owner_host", PlainText, nullable=False),
    Column("owner_pid", Integer, nullable=False),
    Column("owner_started", String(40), nullable=False),  # text: ticks may exceed 32 bits
    Column("heartbeat", Float(53), nullable=False),
    Column("progress", JSON, nullable=False),
    Column("result", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("attempts", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    _time(),
    Column("finished", Float(53)),
    CheckConstraint("state in ('running', 'done', 'failed', 'cancelled', 'lost')", name="state"),
    Index(None, "state"),
    Index(None, "session"),
)

skills = Table(
    "skills",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("title", PlainText, nullable=False),
    Column("mechanism", PlainText, nullable=False),
    Column("preconditions", PlainText, nullable=False),
    Column("counter_indications", PlainText, nullable=False, server_default=""),
    Column("code", PlainText, nullable=False),
    # the pattern of a task that it fits
    Column("matches", JSON, nullable=False, server_default="{}"),
    Column("target", String(80), nullable=False),
    Column("language", String(40), nullable=False),
    Column("signals", JSON, nullable=False),
    Column("files", JSON, nullable=False),  # relative path -> artifact
    Column("state", String(20), nullable=False, index=True),
    _time(),
    CheckConstraint("state in ('proposed', 'accepted', 'contradicted', 'retired')", name="state"),
)

skill_evidence = Table(
    "skill_evidence",
    metadata,
    Column("skill", String(80), ForeignKey("skills.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("session", String(80), nullable=False),
    Column("node", String(20), nullable=False),
    Column("parent", String(20)),
    _digest("task"),
    Column("device", PlainText, nullable=False),
    Column("effect", Float(53), nullable=False),
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("evaluation", String(100), nullable=False),
    Column("parent_evaluation", String(100), nullable=False),
    Column("note", PlainText, nullable=False),
    Column("predicted", Float(53)),
    Column("origin", PlainText, nullable=False, server_default=""),  # "": measured in this store
    _time(),
)

skill_events = Table(
    "skill_events",
    metadata,
    Column("skill", String(80), ForeignKey("skills.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(40), nullable=False),
    Column("message", PlainText, nullable=False),
    Column("author", PlainText, nullable=False),
    Column("data", JSON, nullable=False),
    _time(),
)

# The following tables count skills by the id of their page, including those that come with the
# program.
skill_shown = Table(
    "skill_shown",
    metadata,
    Column("skill", String(120), primary_key=True),
    Column("session", String(80), primary_key=True, index=True),
    Column("ask", Integer, primary_key=True, autoincrement=False),
    ForeignKeyConstraint(["session", "ask"], ["asks.session", "asks.seq"]),
)

skill_uses = Table(
    "skill_uses",
    metadata,
    Column("skill", String(120), primary_key=True),
    Column("session", String(80), primary_key=True, index=True),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("how", String(20), nullable=False),
    ForeignKeyConstraint(["session", "node"], ["nodes.session", "nodes.seq"]),
)

skill_outcomes = Table(  # one row for each session that used a skill: its best use
    "skill_outcomes",
    metadata,
    Column("skill", String(120), primary_key=True),
    Column("session", String(80), primary_key=True),
    Column("node", Integer, nullable=False),
    Column("status", String(20), nullable=False),
    Column("effect", Float(53)),
    Column("low", Float(53)),
    Column("high", Float(53)),
    _time(),
    ForeignKeyConstraint(["session", "node"], ["nodes.session", "nodes.seq"]),
)
