"""Files that a judge keeps in its cache for later ones: written all at once, readable by their owner alone, bounded in number and size."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write(path: Path, data: bytes, *, most_files: int, most_bytes: int) -> None:
    """Put data there; another judge sees the old file or the new one, and nothing between. Then the files of its folder that were
    not used for longest are removed until the rest is within the bounds. Raises OSError, with nothing left over."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = tempfile.NamedTemporaryFile(dir=path.parent, delete=False)
    try:
        with part:
            part.write(data)
        os.replace(part.name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part.name)
        raise
    _prune(path.parent, path, most_files, most_bytes)


def read(path: Path) -> bytes:
    """What is there, which counts as a use. Raises OSError."""
    data = path.read_bytes()
    with contextlib.suppress(OSError):  # another judge has just removed it
        os.utime(path)
    return data


def _prune(folder: Path, newest: Path, most_files: int, most_bytes: int) -> None:
    """Other judges may do the same at this moment, so files may be gone already."""
    found = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            about = file.stat()
            found.append((file != newest, -about.st_mtime_ns, about.st_size, file))
    held = 0
    for number, (_, _, size, file) in enumerate(sorted(found)):
        held += size
        if number and (number >= most_files or held > most_bytes):
            file.unlink(missing_ok=True)
