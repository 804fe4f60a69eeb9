"""Bytes by their SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from kevolve_mcp.errors import NotFound, StoreError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PROTOCOL = re.compile("::|://")


class _Folder:
    """The needed part of fsspec for a local folder: importing fsspec takes longer than reading a
    tree's texts."""

    def cat_file(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def makedirs(self, path: str, exist_ok: bool) -> None:
        os.makedirs(path, exist_ok=exist_ok)


class Artifacts:
    """Content-addressed storage behind an fsspec URL; a path without a protocol is a local folder.

    A local write goes to a temporary file that is synced and renamed; object stores write whole
    objects. Either way a reader sees all of it or nothing. Reads are verified. Any number of
    threads and processes may put the same content.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._fs: Any = None
        self._root = ""
        self._local = False

    def put(self, data: bytes | str) -> str:
        """Store `data` (text as UTF-8) and return its digest. An existing damaged copy is
        replaced."""
        content = data.encode() if isinstance(data, str) else data
        digest = hashlib.sha256(content).hexdigest()
        fs, path = self._open(), self._path(digest)
        try:
            if self._read(path) == content:
                return digest
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            if self._local:
                self._write_local(path, content)
            else:
                fs.pipe_file(path, content)
        except OSError as error:
            raise StoreError(
                f"the artifact {path} cannot be written: {error}.",
                "Check space and permissions of the folder.",
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content. Raises NotFound for an invalid digest, StoreError when the content is
        missing or damaged."""
        if not _DIGEST.fullmatch(digest):
            raise NotFound(
                f"{digest!r} is not an artifact.", "An artifact is named by 64 hexadecimal digits."
            )
        path = self._path(digest)
        try:
            content = self._read(path)
        except OSError as error:
            raise StoreError(
                f"the artifact {path} cannot be read: {error}.",
                "Check the permissions of the folder.",
            ) from error
        if content is None:
            raise StoreError(
                f"the artifact {path} is missing.",
                "The artifacts folder was pruned or belongs to another home; restore it beside "
                "its database.",
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(
                f"the artifact {path} is damaged: its content has another hash than its name.",
                "Restore the file from a copy; putting the same content again repairs it, too.",
            )
        return content

    def text(self, digest: str) -> str:
        """Return the content as UTF-8 text. Raises as `get` does."""
        return self.get(digest).decode()

    def _open(self) -> Any:
        if self._fs is None and not _PROTOCOL.search(self._url):
            self._root, self._fs, self._local = os.path.abspath(self._url), _Folder(), True
        elif self._fs is None:
            from fsspec.core import url_to_fs

            fs, root = url_to_fs(self._url)
            self._local = "file" in (
                (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
            )
            self._root, self._fs = root.rstrip("/"), fs
        return self._fs

    def _path(self, digest: str) -> str:
        self._open()
        return f"{self._root}/{digest[:2]}/{digest[2:]}"

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self._open().cat_file(path))
        except FileNotFoundError:
            return None

    def _write_local(self, path: str, content: bytes) -> None:
        temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
