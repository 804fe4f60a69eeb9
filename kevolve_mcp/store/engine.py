"""Connections: how transactions begin, wait and fail; and on which file systems SQLite is safe.

SQLite's write-ahead log shares memory between processes and relies on POSIX locks; both fail across
machines (https://sqlite.org/wal.html, https://sqlite.org/howtocorrupt.html section 2).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from kevolve_mcp.errors import StoreError

from .migrate import is_current, migrate
from .schema import dump_json, load_json

BUSY_S = 30.0
_MIGRATION_LOCK = 0x6B65766F  # "kevo": key of PostgreSQL's advisory lock


class Database:
    """Two engines on one database: `write` for transactions that change something, `read` for
    snapshots.

    On SQLite a write begins with BEGIN IMMEDIATE: a deferred transaction that reads before it
    writes fails at once when another process wrote in between, whatever the busy timeout. A read
    begins with a plain BEGIN, takes no lock and cannot write. On other databases reads are
    repeatable-read, and writers of one session are serialized by a row lock.
    """

    def __init__(self, writer: Engine, reader: Engine) -> None:
        self._writer = writer
        self._reader = reader

    @classmethod
    def open(cls, home: Path, url: str = "", *, mounts: str | None = None) -> Database:
        """Open a database, creating and migrating it as needed. Raises StoreError."""
        address = _address(home, url)
        try:
            if address.get_backend_name() == "sqlite":
                return _open_sqlite(cls, home, address, mounts)
            return _open_server(cls, address)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _teach(error, address) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Run one transaction that holds the write lock from its beginning; committed at the end,
        rolled back on any error."""
        try:
            with self._writer.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise _teach(error, self._writer.url) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Provide one consistent, read-only snapshot."""
        try:
            with self._reader.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise _teach(error, self._reader.url) from error

    def close(self) -> None:
        """Close all pooled connections."""
        self._writer.dispose()
        self._reader.dispose()


def _address(home: Path, url: str) -> URL:
    if not url:
        return URL.create("sqlite", database=str(home.absolute() / "kevolve.db"))
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            "the database URL cannot be read.",
            "Use e.g. postgresql+psycopg://user@host/name or sqlite:////folder/kevolve.db.",
        ) from error
    if address.get_backend_name() == "sqlite" and (
        not address.database or address.database == ":memory:"
    ):
        raise StoreError(
            "an in-memory SQLite database cannot be shared by connections.",
            "Name a file, or leave the URL empty.",
        )
    return address


def _engine(address: URL, **options: Any) -> Engine:
    try:
        return create_engine(
            address, json_serializer=dump_json, json_deserializer=load_json, **options
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise StoreError(
            f"the driver for {address.drivername!r} is not installed: {error}.",
            "Install it in the server's environment (for PostgreSQL: psycopg[binary], URL "
            "postgresql+psycopg://…).",
        ) from error


def _open_sqlite(cls: type[Database], home: Path, address: URL, mounts: str | None) -> Database:
    file = Path(address.database or "")
    _make(home, home)
    _make(file.parent, home)
    refuse_network(file, mounts)
    writer, reader = (_engine(address, connect_args={"timeout": BUSY_S}) for _ in range(2))
    for engine, setup, begin in (
        (writer, _FOR_WRITING, "BEGIN IMMEDIATE"),
        (reader, _FOR_READING, "BEGIN"),
    ):
        event.listen(engine, "connect", _on_connect(setup))
        event.listen(engine, "begin", _on_begin(begin))
    database = cls(writer, reader)
    try:
        # the check is also locked: another reader would make the change to WAL fail at once
        with _locked(file, home):
            if not is_current(reader):
                _create_sqlite(address, file)
    except BaseException:
        database.close()
        raise
    return database


# FULL: an acknowledged node survives a power failure, too. Both are per connection; WAL is a
# property of the file.
_FOR_WRITING = ("PRAGMA foreign_keys=ON", "PRAGMA synchronous=FULL")
_FOR_READING = ("PRAGMA query_only=ON",)


def _on_connect(statements: tuple[str, ...]) -> Callable[[sqlite3.Connection, object], None]:
    def connect(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions of its own
        for statement in statements:
            connection.execute(statement)

    return connect


def _on_begin(statement: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


@contextmanager
def _locked(file: Path, home: Path) -> Iterator[None]:
    lock = file.with_name(file.name + ".lock")
    try:
        # a file that cannot be created fails here at once; the lock would retry until its timeout
        lock.touch()
        with FileLock(lock, timeout=2 * BUSY_S):
            yield
    except Timeout as error:
        raise StoreError(
            f"another process has held {lock} for a minute.",
            "It migrates the database; try again, or end it.",
        ) from error
    except OSError as error:
        raise StoreError(
            f"the folder {file.parent} cannot be written: {error.strerror}.",
            _remedy(home, file.parent),
        ) from error


def _make(folder: Path, home: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {folder} cannot be created: {error.strerror}.", _remedy(home, folder)
        ) from error


def _remedy(home: Path, folder: Path) -> str:
    if home.absolute() == folder.absolute():
        return "Set KEVOLVE_HOME to a writable folder."
    return (
        "Name a file in a writable folder with KEVOLVE_DATABASE, or unset it to have the database "
        f"in {home}."
    )


def _create_sqlite(address: URL, file: Path) -> None:
    with closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"SQLite cannot use a write-ahead log for {file}.",
            "Set KEVOLVE_HOME to a folder on a local disk.",
        )
    # No foreign keys here: a batch migration rebuilds tables, which would break references
    # temporarily.
    engine = _engine(address, connect_args={"timeout": BUSY_S}, poolclass=NullPool)
    event.listen(engine, "connect", _on_connect(()))
    event.listen(engine, "begin", _on_begin("BEGIN IMMEDIATE"))
    with engine.begin() as connection:
        migrate(connection)


def _open_server(cls: type[Database], address: URL) -> Database:
    writer = _engine(address, pool_pre_ping=True)
    database = cls(writer, writer.execution_options(isolation_level="REPEATABLE READ"))
    try:
        if not is_current(writer):
            with writer.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(
                        text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK}
                    )
                migrate(connection)
    except BaseException:
        database.close()
        raise
    return database


def _teach(error: SQLAlchemyError | sqlite3.Error, address: URL) -> StoreError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    where = address.render_as_string(hide_password=True)
    reason = f"{type(cause).__name__}: {cause}".strip()
    words = reason.lower()
    if "locked" in words:
        hint = f"Another process held the write lock for more than {BUSY_S:.0f} s; try again."
    elif "full" in words:
        hint = "Free some space on the disk."
    elif "malformed" in words or "not a database" in words:
        hint = "Restore the file from a copy, or set KEVOLVE_HOME to an empty folder."
    elif "readonly" in words or "unable to open" in words or "permission" in words:
        hint = "Check the permissions of the folder, or set KEVOLVE_HOME to a writable one."
    else:
        hint = "Check that the database is reachable and was not changed by hand."
    return StoreError(f"the database {where} failed: {reason}.", hint)


_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|smbfs|ncpfs|afs|9p|ceph|lustre|gpfs|beegfs\w*|pvfs2|orangefs|ocfs2|gfs2|"
    r"davfs|coda"
    r"|fuse\.(sshfs|ceph|glusterfs|s3fs|goofys|rclone|gcsfuse|davfs2?|smbnetfs|curlftpfs|juicefs|"
    r"mountpoint-s3|blobfuse2?|nfs)"
)


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """Raise StoreError when `path` (it need not exist) lies on a network file system.

    mounts: the text of /proc/mounts; read from there by default, and without it nothing is refused.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return
    kind, where = mount_of(path, mounts)
    if _NETWORK.fullmatch(kind):
        raise StoreError(
            f"{path} lies on a network file system ({kind} at {where}), where SQLite loses or "
            "corrupts data.",
            "Set KEVOLVE_HOME to a folder on a local disk, or KEVOLVE_DATABASE to a PostgreSQL "
            "URL.",
        )


def mount_of(path: Path, mounts: str) -> tuple[str, str]:
    """File system type and mount point of `path`; ("", "") when `mounts` names none. Later mounts
    cover earlier ones."""
    real = os.path.realpath(path)
    mount = ("", "")
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[1])
        inside = point == "/" or real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(mount[1]):
            mount = (fields[2], point)
    return mount
