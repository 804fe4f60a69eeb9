"""Opening: where a store may lie, which schema it has, what opening costs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

import kevolve_mcp.store
from kevolve_mcp.errors import StoreError
from kevolve_mcp.store import Store, engine
from kevolve_mcp.store.engine import mount_of
from kevolve_mcp.store.examples import opened, refused
from kevolve_mcp.store.migrate import HEAD, VERSION_TABLE
from kevolve_mcp.store.schema import metadata

MOUNTS = (
    "/dev/vda / ext4 rw 0 0\nserver:/home /net/home\\040dir {kind} rw 0 0\n"
    "/dev/vdb /net/home\\040dir/local ext4 rw 0 0\n"
)


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option(
        "script_location", str(Path(kevolve_mcp.store.__file__).parent / "migrations")
    )
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with create_engine(
        f"sqlite:///{tmp_path / 'kevolve.db'}", poolclass=NullPool
    ).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": False}
        )
        assert compare_metadata(context, metadata) == []


def test_a_home_is_made_with_a_write_ahead_log(tmp_path: Path) -> None:
    home = tmp_path / "not" / "there yet"
    with Store.open(home) as store:
        session = opened(store)
    with closing(sqlite3.connect(home / "kevolve.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with Store.open(home) as store:
        assert store.sessions.get(session.id) == session


def test_a_url_may_name_another_file(tmp_path: Path) -> None:
    with Store.open(tmp_path / "home", f"sqlite:///{tmp_path / 'elsewhere' / 'x.db'}") as store:
        opened(store)
    assert (tmp_path / "elsewhere" / "x.db").exists()
    assert not (tmp_path / "home" / "kevolve.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////proc/kevolve.db",
        "sqlite:////dev/null/kevolve.db",
        "sqlite:////proc/no/kevolve.db",
    ],
)
def test_a_url_where_no_file_can_be_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(engine, "BUSY_S", 0.2)  # after which a held lock would be blamed
    with pytest.raises(StoreError, match=r"cannot be (created|written)") as raised:
        Store.open(tmp_path / "home", url)
    assert "KEVOLVE_DATABASE" in raised.value.hint
    assert str(tmp_path) not in raised.value.message


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "lustre", "fuse.glusterfs"]
)
def test_a_network_file_system_is_refused(kind: str, tmp_path: Path) -> None:
    mounts = MOUNTS.format(kind=kind).replace("/net", str(tmp_path))
    error = refused(StoreError, lambda: Store.open(tmp_path / "home dir" / "me", mounts=mounts))
    assert kind in error.message
    assert "KEVOLVE_HOME" in error.hint
    assert not (tmp_path / "home dir" / "me" / "kevolve.db").exists()
    Store.open(tmp_path / "home dir" / "local" / "me", mounts=mounts).close()


def test_which_mount_a_path_lies_on() -> None:
    mounts = MOUNTS.format(kind="nfs4")
    assert mount_of(Path("/net/home dir/me"), mounts) == ("nfs4", "/net/home dir")
    assert mount_of(Path("/net/home dir/local/me"), mounts) == ("ext4", "/net/home dir/local")
    assert mount_of(Path("/net/home directory"), mounts) == ("ext4", "/")
    assert mount_of(Path("/x"), "a / nfs rw 0 0\nb / ext4 rw 0 0\n") == ("ext4", "/")
    assert mount_of(Path("/x"), "") == ("", "")


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection, connection:
        connection.execute(f"update {VERSION_TABLE} set version_num = '9999'")
    error = refused(StoreError, lambda: Store.open(tmp_path))
    assert "9999" in error.message
    assert "upgrade" in error.hint
    with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection:
        assert connection.execute(f"select version_num from {VERSION_TABLE}").fetchall() == [
            ("9999",)
        ]


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection:
        connection.execute("create table jobs (id integer)")
    assert "'jobs'" in refused(StoreError, lambda: Store.open(tmp_path)).message


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kevolve.db").write_bytes(
        b"this is no database at all, but long enough to be looked at" * 20
    )
    assert "not a database" in refused(StoreError, lambda: Store.open(tmp_path)).message
    (tmp_path / "file").write_text("")
    refused(StoreError, lambda: Store.open(tmp_path / "file"))
    refused(StoreError, lambda: Store.open(tmp_path / "file" / "below"))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "no url", "nosuch://host/name"])
def test_a_useless_url_is_refused(url: str, tmp_path: Path) -> None:
    refused(StoreError, lambda: Store.open(tmp_path, url))


def test_an_interrupted_migration_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kevolve_mcp.store import migrate

    monkeypatch.setattr(migrate, "HEAD", "0000")  # a migration that ends elsewhere than it should
    refused(StoreError, lambda: Store.open(tmp_path))
    with closing(sqlite3.connect(tmp_path / "kevolve.db")) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == []
    monkeypatch.undo()
    Store.open(tmp_path).close()


def test_reading_takes_no_write_lock(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = opened(store)
        with closing(sqlite3.connect(tmp_path / "kevolve.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert store.sessions.get(session.id) == session
            assert store.nodes.tree(session.id).nodes == ()
            writer.execute("ROLLBACK")


def test_imports_are_lazy(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    code = (
        "import sys, pathlib, kevolve_mcp.store\n"
        "heavy = lambda: sorted({'sqlalchemy', 'alembic', 'fsspec', 'torch'} & set(sys.modules))\n"
        "print(heavy())\n"
        "store = kevolve_mcp.store.Store.open(pathlib.Path(sys.argv[1])); store.sessions.list(); "
        "store.close()\n"
        "print(heavy())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout.splitlines() == ["[]", "['sqlalchemy']"]
