"""Passages and their vectors in Chroma: in this process's memory, or on a Chroma server that a team
shares.

Embedded Chroma is not made for several processes on one folder, so nothing of it lies on a disk
here. On a server a collection is named by its generation, the hash of the model and of every
passage: what is there under that name with the right number of rows is right, and two that build it
at once write the same rows.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kevolve_mcp.errors import UsageError
from knowledge import Near, Passage

if TYPE_CHECKING:
    from .models import Vectors

# passages asked for at once: enough of them are usually on the shelf, and a filter by page costs
# four times as much
NEAREST = 400
FEW = 10  # pages; with fewer the index is asked again, with the filter
_SPACE = {"hnsw": {"space": "cosine", "ef_search": 200}}


class Index:
    """Safe to use from several threads. Raises what Chroma raises."""

    def __init__(
        self,
        passages: Sequence[Passage],
        identity: str,
        make: Callable[[], Vectors | None],
        url: str = "",
    ) -> None:
        """make: the passages' vectors, asked for only where they are missing; None when it was told
        to stop, which leaves the index short."""
        self._passages = tuple(passages)
        self._owned = not url
        self._client = _client(url)
        name = uuid.uuid4().hex if self._owned else generation(passages, identity)
        self._collection = self._client.get_or_create_collection(
            f"kevolve-{name[:32]}", embedding_function=None, configuration=_SPACE
        )
        if self._collection.count() != len(passages) and (vectors := make()) is not None:
            self._fill(vectors)

    def _fill(self, vectors: Vectors) -> None:
        step = self._client.get_max_batch_size()
        for begin in range(0, len(self._passages), step):
            part = self._passages[begin : begin + step]
            self._collection.upsert(
                ids=[str(begin + n) for n in range(len(part))],
                embeddings=vectors[begin : begin + step],
                metadatas=[{"page": passage.page} for passage in part],
            )

    def nearest(self, vector: Vectors, pages: Collection[str], limit: int) -> dict[str, Near]:
        """Up to `limit` of the pages by their nearest passage, nearest first."""
        wanted = frozenset(pages)
        if not wanted or not self._passages:
            return {}
        near = self._query(vector, wanted, {})
        if len(near) < min(FEW, limit, len(wanted)) and len(self._passages) > NEAREST:
            near = self._query(vector, wanted, {"where": {"page": {"$in": sorted(wanted)}}})
        return dict(list(near.items())[:limit])

    def _query(
        self, vector: Vectors, wanted: frozenset[str], filters: dict[str, Any]
    ) -> dict[str, Near]:
        count = min(NEAREST, len(self._passages))
        found = self._collection.query(
            query_embeddings=[vector], n_results=count, include=["distances"], **filters
        )
        near: dict[str, Near] = {}
        for row, distance in zip(found["ids"][0], found["distances"][0], strict=True):
            passage = self._passages[int(row)]
            if passage.page in wanted:
                near.setdefault(passage.page, Near(round(1 - distance, 4), passage.section))
        return near

    def close(self) -> None:
        """Frees the memory; what a server holds stays for others."""
        if self._owned:
            self._client.delete_collection(self._collection.name)


def generation(passages: Sequence[Passage], identity: str) -> str:
    """Hash of the model and of every passage in its order."""
    digest = hashlib.sha256(identity.encode())
    for passage in passages:
        digest.update("\0".join(("", passage.page, passage.section, passage.text)).encode())
    return digest.hexdigest()


def _client(url: str) -> Any:
    import chromadb
    from chromadb.config import Settings

    quiet = Settings(anonymized_telemetry=False)
    if not url:
        return chromadb.EphemeralClient(quiet)
    host, port, ssl = address(url)
    return chromadb.HttpClient(host, port, ssl, settings=quiet)


def address(url: str) -> tuple[str, int, bool]:
    """Host, port and whether it is encrypted. Raises UsageError."""
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
            f"KEVOLVE_VECTORS_SERVER is {url!r}, which is no address of a server.",
            "Give one such as http://localhost:8000.",
        )
    return (
        parts.hostname,
        port or (443 if parts.scheme == "https" else 8000),
        parts.scheme == "https",
    )
