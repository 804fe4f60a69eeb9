"""Vectors in a file: made once, by whoever comes first, and never taken from a damaged row."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kevolve_mcp.retrieval import vector_cache
from kevolve_mcp.retrieval.models import Encoder

from .bag import Bag, texts

ROOT = Path(__file__).parents[2]


def fill(file: Path, words: list[str], name: str = "bag") -> int:
    """How many texts had to be made; what comes back is checked."""
    bag = Bag()
    encoder = Encoder(name, bag)
    before = bag.asked
    made = vector_cache.vectors(file, encoder, words)
    needed = bag.asked - before
    assert made is not None
    assert np.array_equal(made, Bag()(words))
    return needed


def child(file: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.retrieval.bag", str(file), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "vectors.sqlite"
    assert fill(file, texts(100)) == 100
    assert fill(file, texts(100)) == 0


def test_a_changed_text_and_another_model_are_made(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    fill(file, texts(40))
    assert fill(file, [*texts(40)[:-1], "a changed passage"]) == 1
    assert fill(file, texts(40), name="another") == 40


def test_a_file_that_is_no_database_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "vectors.sqlite"
    file.write_bytes(b"not a database at all" * 100)
    assert fill(file, texts(10)) == 10
    assert "damaged" in caplog.text
    assert fill(file, texts(10)) == 0


def test_a_torn_file_gives_nothing_wrong(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    fill(file, texts(200))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    fill(file, texts(200))
    assert fill(file, texts(200)) == 0


def test_a_row_that_rotted_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    fill(file, texts(10))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(
            "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE key = (SELECT min(key) "
            "FROM vectors)"
        )
        db.execute("UPDATE vectors SET vector = x'00' WHERE key = (SELECT max(key) FROM vectors)")
    assert fill(file, texts(10)) == 2


def test_where_nothing_can_be_written_vectors_are_made_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert fill(tmp_path / "file" / "vectors.sqlite", texts(5)) == 5
    assert "cannot be kept" in caplog.text


def test_it_stops_when_told_to(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    looks = iter([True, True, False])
    assert (
        vector_cache.vectors(file, Encoder("bag", Bag()), texts(500), lambda: next(looks)) is None
    )
    assert fill(file, texts(500)) == 500 - 2 * vector_cache.CHUNK


def test_two_processes_fill_one_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    both = [child(file, 300) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].splitlines()[-1] for process in both] == [
        "done",
        "done",
    ]
    assert fill(file, texts(300)) == 0


def test_a_process_killed_while_it_writes_loses_only_what_it_had_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    process = child(file, 3_000)
    assert process.stdout is not None
    with process.stdout as said:
        for _ in range(6):
            assert said.readline().startswith("chunk")
        process.kill()
    process.wait(timeout=60)
    assert fill(file, texts(3_000)) <= 3_000 - 3 * vector_cache.CHUNK
    assert fill(file, texts(3_000)) == 0
