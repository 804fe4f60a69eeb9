"""Files in a judge's cache for later judges: written atomically, readable only by their owner, and
limited in number and size."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

_PART, _LEFT_OVER_S = ".part", 3600.0  # older parts are left over from judges that were killed


def write(path: Path, data: bytes, *, most_files: int, most_bytes: int) -> None:
    """Write a file; another judge sees the old or the new contents, never a mixture. Then remove
    the least recently used files of its folder until the rest is within the limits. Raises OSError,
    with nothing left over."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=_PART)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    _prune(path.parent, path, most_files, most_bytes)


def read(path: Path) -> bytes:
    """Read a file, which counts as a use. Raises OSError."""
    data = path.read_bytes()
    with contextlib.suppress(OSError):  # another judge has just removed it
        os.utime(path)
    return data


def _prune(folder: Path, newest: Path, most_files: int, most_bytes: int) -> None:
    """Remove files beyond the limits. Other judges may do the same at this moment, so files may be
    gone already, and files that they are writing are left alone."""
    entries = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            about = file.stat()
            if file.suffix != _PART or time.time() - about.st_mtime > _LEFT_OVER_S:
                entries.append((file != newest, -about.st_mtime_ns, about.st_size, file))
    total = 0
    for number, (_, _, size, file) in enumerate(sorted(entries)):
        total += size
        if number and (number >= most_files or total > most_bytes or file.suffix == _PART):
            file.unlink(missing_ok=True)
