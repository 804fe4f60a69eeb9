"""Bring a database to the schema of this program.

alembic takes a quarter of a second to import, so it is loaded only when the version row differs
from HEAD.
"""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, Engine, inspect, select, text
from sqlalchemy.exc import DBAPIError

from kevolve_mcp.errors import StoreError

from . import schema

HEAD = "0012"
# not alembic's default: a shared database may contain another program's
VERSION_TABLE = "kevolve_version"


def version(connection: Connection) -> str | None:
    """Return the schema version of the database, None without one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    value: str | None = connection.execute(
        select(text("version_num")).select_from(text(VERSION_TABLE))
    ).scalar()
    return value


def is_current(engine: Engine) -> bool:
    """Return whether the database is at HEAD; False also if there is none yet. Starts no write."""
    with engine.connect() as connection:
        return version(connection) == HEAD


def migrate(connection: Connection) -> None:
    """Upgrade inside the caller's transaction, all or nothing. A second caller finds it done.

    Raises StoreError when the database is newer than this program or contains another program's
    tables with the same names.
    """
    current = version(connection)
    if current == HEAD:
        return
    if current is None and (
        strangers := sorted(
            set(inspect(connection).get_table_names()) & set(schema.metadata.tables)
        )
    ):
        raise StoreError(
            f"the database has a table {strangers[0]!r} but no KEvolve version.",
            "It belongs to another program; set KEVOLVE_HOME to an empty folder, or "
            "KEVOLVE_DATABASE to an empty database.",
        )
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option(
        "script_location", str(files("kevolve_mcp.store") / "migrations").replace("%", "%%")
    )
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"the database has schema version {current!r}, which this program (version {HEAD!r}) "
            "does not know.",
            "It was written by a newer KEvolve: upgrade the program, or set KEVOLVE_HOME to "
            "another folder.",
        ) from error
    except DBAPIError as error:
        raise StoreError(
            f"the database cannot be migrated from {current!r} to {HEAD!r}: {error.orig}.",
            "Nothing was changed. Keep a copy of the database and report the message.",
        ) from error
    if (reached := version(connection)) != HEAD:
        raise StoreError(
            f"the migrations lead to {reached!r} instead of {HEAD!r}.",
            "The installation is damaged; install it again.",
        )
