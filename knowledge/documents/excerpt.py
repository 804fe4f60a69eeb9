"""The part of a passage that shows why it was found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

WORDS = 28
CHARACTERS = 400
ENDING = 3  # letters at the end of a longer word that may differ, as with stemming


def excerpt(text: str, terms: Sequence[str]) -> str:
    """Return the WORDS consecutive words that contain most beginnings of the terms, on one line of
    at most CHARACTERS."""
    words = text.split()
    beginnings = tuple(term.lower()[: max(4, len(term) - ENDING)] for term in terms if term)
    matched = accumulate(
        (word.lower().strip("`*_(\"'[<|").startswith(beginnings) for word in words), initial=0
    )
    sums = list(matched)
    starts = range(max(1, len(words) - WORDS + 1))
    start = max(starts, key=lambda n: sums[min(n + WORDS, len(words))] - sums[n])
    end = start + WORDS
    line = f"{'… ' if start else ''}{' '.join(words[start:end])}{' …' if end < len(words) else ''}"
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…"
