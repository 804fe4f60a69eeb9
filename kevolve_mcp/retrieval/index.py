"""Passages and their vectors in this process's memory, compared one by one.

A graph such as HNSW would be asked faster among hundreds of thousands. Among some thousands exact
comparing is faster, and a narrow shelf is searched to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from knowledge import Near, Passage

if TYPE_CHECKING:
    from .models import Vectors


class Index:
    """Safe to use from several threads. vectors: one row a passage, each of length 1."""

    def __init__(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        self._sections = [passage.section for passage in passages]
        self._vectors = vectors
        self._rows: dict[str, list[int]] = {}
        for row, passage in enumerate(passages):
            self._rows.setdefault(passage.page, []).append(row)

    def nearest(self, vector: Vectors, pages: Collection[str], limit: int) -> dict[str, Near]:
        """Up to `limit` of the pages by their nearest passage, nearest first."""
        import numpy as np

        # BLAS would wake threads for it, and the other cores may be timing a kernel
        closeness = np.einsum("ij,j->i", self._vectors, vector).tolist()
        best = {
            page: max(self._rows[page], key=closeness.__getitem__)
            for page in dict.fromkeys(pages)
            if page in self._rows
        }
        ranked = sorted(best.items(), key=lambda found: -closeness[found[1]])
        return {
            page: Near(round(closeness[row], 4), self._sections[row])
            for page, row in ranked[:limit]
        }
