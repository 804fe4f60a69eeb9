"""Vectors kept in a file, so that a process need not make again what another one made.

One row is one text by one model, found by the hash of both: a changed page only costs its own
passages, processes may write at once, and a killed one only loses what it had not committed. The
file may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import Encoder, Vectors

CHUNK = 32  # texts made and committed at once: about a second of work for a small model
BUSY_S = 10.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, check_sum "
    "INTEGER NOT NULL) WITHOUT ROWID"
)
_log = logging.getLogger(__name__)


def vectors(
    file: Path, encoder: Encoder, texts: Sequence[str], goes_on: Callable[[], bool] = lambda: True
) -> Vectors | None:
    """Return one row per text, from the file or made and stored there; None once `goes_on` returns
    false. A damaged file or row is made again; if the file cannot be written, the vectors are made
    and not kept."""
    import numpy as np

    keys = [hashlib.sha256(f"{encoder.identity}\0{text}".encode()).digest() for text in texts]
    rows = _read(file, set(keys), encoder.dimension)
    # texts of similar length together, since a batch is padded to its longest text
    missing = sorted(
        (n for n, key in enumerate(keys) if key not in rows), key=lambda n: len(texts[n])
    )
    for begin in range(0, len(missing), CHUNK):
        if not goes_on():
            return None
        chunk = missing[begin : begin + CHUNK]
        made = {
            keys[n]: row.tobytes()
            for n, row in zip(chunk, encoder.encode([texts[n] for n in chunk]), strict=True)
        }
        _write(file, made)
        rows |= made
    joined = b"".join(rows[key] for key in keys)
    return np.frombuffer(joined, dtype=np.float32).reshape(len(texts), encoder.dimension)


def _read(file: Path, wanted: set[bytes], dimension: int) -> dict[bytes, bytes]:
    if not file.exists():
        return {}
    try:
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as db:
            rows = db.execute("SELECT key, vector, check_sum FROM vectors").fetchall()
    except sqlite3.OperationalError as error:
        _log.warning("kept vectors cannot be read, so they are made again: %s: %s", file, error)
        return {}
    except sqlite3.DatabaseError as error:
        _log.warning("kept vectors are damaged, so they are made again: %s: %s", file, error)
        file.unlink(missing_ok=True)
        return {}
    size = 4 * dimension
    return {
        key: vector
        for key, vector, check in rows
        if key in wanted and len(vector) == size and zlib.crc32(vector) == check
    }


def _write(file: Path, made: dict[bytes, bytes]) -> None:
    rows = [(key, vector, zlib.crc32(vector)) for key, vector in made.items()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as db, db:
            db.execute(_SCHEMA)
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
    except (OSError, sqlite3.Error) as error:
        _log.warning(
            "vectors cannot be kept, so the next process will make them again: %s: %s", file, error
        )
