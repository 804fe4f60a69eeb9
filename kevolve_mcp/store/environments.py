"""Environments: where something was measured, by the digest of all that is known about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from sqlalchemy import Connection, select

from harness.types import Environment, from_json, to_json

from . import schema
from .rows import insert_once


def environment_digest(environment: Environment) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(json.dumps(to_json(environment), sort_keys=True).encode()).hexdigest()


def put_environment(connection: Connection, environment: Environment, now: float) -> str:
    """Keep it and return its digest."""
    digest = environment_digest(environment)
    row = {
        "device": environment.device,
        "toolchain": environment.toolchain,
        "data": to_json(environment),
        "created": now,
    }
    insert_once(connection, schema.environments, {"digest": digest}, row)
    return digest


def load_environments(connection: Connection, digests: Iterable[str]) -> dict[str, Environment]:
    """By digest."""
    table = schema.environments
    rows = connection.execute(
        select(table.c.digest, table.c.data).where(table.c.digest.in_(set(digests)))
    )
    return {row.digest: from_json(Environment, row.data) for row in rows}
