"""Which files of a folder are documents, and why the others are not. Only regular files inside the
folder are read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 64 << 20
MAX_FILES = 20_000
KINDS = {
    ".md": "text", ".markdown": "text", ".txt": "text", ".text": "text", ".rst": "text",
    ".adoc": "text", ".asciidoc": "text", ".asc": "text", ".html": "html", ".htm": "html",
    ".xhtml": "html", ".pdf": "pdf",
}  # fmt: skip
"""Suffix -> how the file is read."""


@dataclass(frozen=True)
class File:
    """A file. path: below the folder, with /. signature: changes when the content may have changed.
    problem: why it cannot be read, "" if it can."""

    path: str
    kind: str
    signature: str
    problem: str = ""


def walk(folder: Path) -> tuple[File, ...]:
    """Return the documents below `folder`, by path, without hidden files and folders and files of
    other kinds. Links are not followed: a file is only read under its own name inside the folder.
    Raises OSError when the folder cannot be listed."""
    found: list[File] = []
    for entry in _entries(str(folder)):
        kind = KINDS.get(os.path.splitext(entry.name)[1].lower())
        if kind is None:
            continue
        path = os.path.relpath(entry.path, folder).replace(os.sep, "/")
        if len(found) == MAX_FILES:
            found.append(
                File(
                    path,
                    kind,
                    "",
                    f"the folder has more than {MAX_FILES} documents; this one and the rest are "
                    "not read",
                )
            )
            break
        found.append(_look(entry, path, kind))
    return tuple(sorted(found, key=lambda file: file.path))


def read(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises OSError, also for a link, a pipe, a device and
    more than MAX_BYTES."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path.name} is not a plain file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB")
    return data


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """All entries below the folder that are not folders. An unreadable subfolder counts as
    empty."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            if here == folder:
                raise
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry


def _look(entry: os.DirEntry[str], path: str, kind: str) -> File:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError as error:
        return File(path, kind, "", error.strerror or "cannot be read")
    signature = f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
    if stat.S_ISLNK(found.st_mode):
        return File(path, kind, signature, "a link; put the file itself into the folder")
    if not stat.S_ISREG(found.st_mode):
        return File(path, kind, signature, "not a plain file")
    if found.st_size > MAX_BYTES:
        return File(path, kind, signature, f"larger than {MAX_BYTES >> 20} MiB; split it")
    if not path.isprintable():
        return File(path, kind, signature, "its name has unprintable characters; rename it")
    return File(path, kind, signature)
