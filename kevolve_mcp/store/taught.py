"""Whether a home has learned anything, read directly from its file, since opening a store takes
longer than searching all pages."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_TAUGHT = (
    "SELECT 1 FROM skills WHERE state = 'accepted'",
    "SELECT 1 FROM skill_outcomes",
)


def taught_something(home: Path, url: str = "") -> bool:
    """Return whether the store may change what the library finds: by an accepted skill, or by
    outcomes of skills. Creates and changes nothing.

    Args:
        home: As for `Store.open`.
        url: As for `Store.open`.

    Returns:
        Also True if only opening the store can tell: for another database than the home's own, and
        for a file that cannot be read this way.
    """
    file = home.absolute() / "kevolve.db"
    if url:
        return True
    if not file.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            return any(database.execute(query).fetchone() for query in _TAUGHT)
    except sqlite3.Error:
        return True
