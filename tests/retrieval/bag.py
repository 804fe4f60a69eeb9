"""A stand-in for a model: words become places in a short vector. Run as a program it fills a file
of kept vectors and says so by chunk."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kevolve_mcp.retrieval import vector_cache
from kevolve_mcp.retrieval.models import Encoder

if TYPE_CHECKING:
    from kevolve_mcp.retrieval.models import Vectors

DIMENSION = 512


class Bag:
    """Counts what it is asked to encode."""

    def __init__(self, *, aloud: bool = False) -> None:
        self.asked = 0
        self._aloud = aloud

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.asked += len(texts)
        if self._aloud:
            print(f"chunk of {len(texts)}", flush=True)
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % DIMENSION] += 1
            row /= np.linalg.norm(row) or 1
        return rows


def texts(count: int) -> list[str]:
    return [f"text number {n} of {count}" for n in range(count)]


def until(holds: Callable[[], bool]) -> None:
    """Asks until it does: it comes about in a thread."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


if __name__ == "__main__":
    file, number = Path(sys.argv[1]), int(sys.argv[2])
    made = vector_cache.vectors(file, Encoder("bag", Bag(aloud=True)), texts(number))
    print("done" if made is not None and len(made) == number else "short", flush=True)
