"""What of a text a reader sees."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from kevolve_mcp.visible import LONGEST_NAME, invisible, name_problem, visible

SEEN = "Größe\u0301 λ, 行ごと, עמודה, 🧮🎉 \u00a0\u2003\n\tx = 1"


def test_honest_text_is_seen_as_it_is() -> None:
    assert invisible(SEEN) == ""
    assert visible(SEEN) == SEEN


def test_every_character_is_seen_or_replaced() -> None:
    for char in map(chr, range(sys.maxunicode + 1)):
        kind = unicodedata.category(char)
        if kind[0] == "C" or kind in ("Zl", "Zp"):
            assert char in "\n\t" or visible(f"a{char}b") == "a b", hex(ord(char))
        if kind == "Mn" and "VARIATION SELECTOR" in unicodedata.name(char, ""):
            assert invisible(f"ab{char}") == char
        if unicodedata.name(char, "").startswith("HANGUL") and "FILLER" in unicodedata.name(char):
            assert invisible(char) == char


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("large", ""),
        ("Größe 行 16 x 4, float16", ""),
        ("a" * LONGEST_NAME, ""),
        ("a" * (LONGEST_NAME + 1), "has 81 characters"),
        (" ", "has 0 characters"),
        ("a\nb", "U+000A"),
        ("a\tb", "U+0009"),
        ("a\u2028b", "U+2028"),
        ("a\x1b[31m", "U+001B"),
    ],
)
def test_a_name_fits_in_a_line(name: str, words: str) -> None:
    problem = name_problem(name)
    assert words in problem
    assert bool(problem) == bool(words)
