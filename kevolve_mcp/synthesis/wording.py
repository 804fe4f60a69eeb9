"""Text of others inside ours."""

from __future__ import annotations


def one_line(text: str, most: int = 80) -> str:
    """Names that others chose, inside a sentence: no line breaks or control characters, not too
    long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def quoted(text: str) -> str:
    """Marked line by line: no text can end its own quotation, nor does cutting it."""
    return "\n".join(f"> {line}" for line in text.strip().splitlines())
