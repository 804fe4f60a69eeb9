"""Vectors on a Chroma server, so that a team makes them once.

A collection is named by its generation, the hash of the model and of every passage. A row's id is
the hash of its passage; the row also has the checksum of its vector. Every row is read and checked
before any is used. Missing or damaged rows are written again, and two processes that build at once
write the same rows. Searches use the rows in memory, not the server.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from kevolve_mcp.errors import Unavailable, UsageError
from knowledge import Passage

if TYPE_CHECKING:
    from .models import Vectors

FORMAT = 2  # of ids, rows and checksums: another number makes another collection
STEP = 500  # rows in one request
HEARTBEAT_S = 15.0
REQUEST_S = 30.0
# While another process fills a collection, the server may fail to read it: its index is not on disk
# yet.
UNREADABLE_S, PAUSE_S = 10.0, 0.2


def vectors(
    url: str, passages: Sequence[Passage], identity: str, make: Callable[[], Vectors | None]
) -> Vectors | None:
    """Return one vector per passage from the server; None when `make` was told to stop. make:
    called where one is missing or damaged; the server then gets what it lacks. Raises UsageError,
    Unavailable and what Chroma raises."""
    import numpy as np

    keys = [_key(passage) for passage in passages]
    name = f"kevolve-{generation(passages, identity)[:32]}"
    with Served(url) as server:
        collection = server.collection(name)
        by_key = _read(collection, keys)
        if len(by_key) == len(set(keys)):
            return np.stack([by_key[key] for key in keys]) if keys else make()
        if (made := make()) is None:
            return None
        if not set(collection.get(include=[])["ids"]) <= set(keys):  # foreign rows
            server.drop(name)
            collection, by_key = server.collection(name), {}
        pages = {key: passage.page for key, passage in zip(keys, passages, strict=True)}
        rows = dict(zip(keys, made, strict=True))
        _write(collection, {key: rows[key] for key in rows if key not in by_key}, pages)
        return made


def _read(collection: Any, keys: Sequence[str]) -> dict[str, Any]:
    """The undamaged vectors by key."""
    import numpy as np

    rows = {}
    for begin in range(0, len(keys), STEP):
        part = list(dict.fromkeys(keys[begin : begin + STEP]))
        got = _get(collection, part)
        for key, row, about in zip(got["ids"], got["embeddings"], got["metadatas"], strict=True):
            vector = np.asarray(row, dtype=np.float32)
            if about and about.get("check_sum") == _check_sum(vector):
                rows[key] = vector
    return rows


def _get(collection: Any, keys: Sequence[str]) -> Any:
    """The rows of these keys, once the server can read them."""
    from chromadb.errors import InternalError

    deadline = time.monotonic() + UNREADABLE_S
    while True:
        try:
            return collection.get(ids=list(keys), include=["embeddings", "metadatas"])
        except InternalError:  # noqa: PERF203  # rare
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _write(collection: Any, rows: dict[str, Any], pages: dict[str, str]) -> None:
    keys = list(rows)
    for begin in range(0, len(keys), STEP):
        part = keys[begin : begin + STEP]
        collection.upsert(
            ids=part,
            embeddings=[rows[key] for key in part],
            metadatas=[{"page": pages[key], "check_sum": _check_sum(rows[key])} for key in part],
        )


def _check_sum(vector: Any) -> int:
    return zlib.crc32(vector.tobytes())


def _key(passage: Passage) -> str:
    whole = "\0".join((passage.page, passage.section, passage.text))
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def generation(passages: Sequence[Passage], identity: str) -> str:
    """Return the hash of the model and of every passage, in order."""
    digest = hashlib.sha256(f"{FORMAT} {identity}".encode())
    for passage in passages:
        digest.update("\0".join(("", passage.page, passage.section, passage.text)).encode())
    return digest.hexdigest()


class Served:
    """A Chroma server that answers. A context manager. Raises UsageError, Unavailable.

    Chroma's own clients wait without limit and keep connections open after closing, so this class
    uses its HTTP interface, with a time limit for each request.
    """

    def __init__(self, url: str) -> None:
        from chromadb.api import ServerAPI
        from chromadb.config import Settings, System

        host, port, ssl = address(url)
        settings = Settings(
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=f"[{host}]" if ":" in host else host,
            chroma_server_http_port=port,
            chroma_server_ssl_enabled=ssl,
            anonymized_telemetry=False,
        )
        self._server = System(settings).instance(ServerAPI)
        self._session: Any = self._server._session
        self._session.timeout = HEARTBEAT_S
        try:
            self._server.heartbeat()
        # another program that listens there may answer anything
        except Exception as error:
            self._session.close()
            raise Unavailable(
                f"no Chroma server answers at {url}: {type(error).__name__}: {str(error)[:200]}.",
                "Start it (chroma run --path FOLDER), or leave KEVOLVE_VECTORS_SERVER empty.",
            ) from error
        self._session.timeout = REQUEST_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._session.close()

    def collection(self, name: str) -> Any:
        """Return the collection of this name, created if there is none."""
        from chromadb.api.models.Collection import Collection

        model = self._server.get_or_create_collection(name)
        return Collection(self._server, model, embedding_function=None)

    def names(self) -> set[str]:
        """Return the names of all collections."""
        return {model.name for model in self._server.list_collections()}

    def drop(self, name: str) -> None:
        self._server.delete_collection(name)


def address(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether the connection is encrypted. Raises UsageError."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or port == 0
        or parts.path.strip("/")
    ):
        raise UsageError(
            f"KEVOLVE_VECTORS_SERVER is {url!r}, which is not the URL of a server.",
            "Set it to a URL such as http://localhost:8000.",
        )
    return (
        parts.hostname,
        port or (443 if parts.scheme == "https" else 8000),
        parts.scheme == "https",
    )
