"""Texts as table cells."""

from __future__ import annotations

from rich.text import Text


def cells(*texts: str) -> list[Text]:
    """Return cells that are shown as they are: brackets in names and reasons are no markup."""
    return [Text(text) for text in texts]
