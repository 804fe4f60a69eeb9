"""Registered documents and unanswered questions as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from knowledge import Gap
from knowledge.documents import Registered


def document_table(document: Registered) -> RenderableType:
    """Return each document with its signals and families; an unread one with the reason."""
    table = Table(
        title=Text(f"{document.name}: {document.target}, {document.folder}"),
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for name in ("document", "passages", "signals", "operator families", ""):
        table.add_column(name, justify="right" if name == "passages" else "left", overflow="fold")
    for d in document.documents:
        remark = d.problem or ("" if d.reviewed else "new since the last add")
        cells = (
            d.path,
            str(d.passages),
            ", ".join(d.about.signals),
            ", ".join(d.about.families),
            remark,
        )
        table.add_row(*map(Text, cells))
    return table


def registration_table(documents: Sequence[Registered]) -> RenderableType:
    """Return one line for each registration."""
    table = Table(box=None, pad_edge=False)
    for name in ("name", "target", "documents", "passages", "not read", "folder"):
        table.add_column(
            name,
            justify="right" if name in ("documents", "passages", "not read") else "left",
            overflow="fold",
        )
    for r in documents:
        unread = sum(bool(d.problem) for d in r.documents)
        counts = (len(r.documents) - unread, sum(d.passages for d in r.documents), unread)
        table.add_row(*map(Text, (r.name, r.target, *map(str, counts), str(r.folder))))
    return table


def gap_table(gaps: Sequence[Gap]) -> RenderableType:
    """Return each question with how often and when it was last asked."""
    table = Table(box=None, pad_edge=False)
    for name in ("asked", "last", "words", "signals", "target"):
        table.add_column(name, justify="right" if name == "asked" else "left", overflow="fold")
    for gap in gaps:
        last = datetime.fromtimestamp(gap.last).strftime("%Y-%m-%d")
        table.add_row(
            *map(
                Text,
                (str(gap.count), last, " ".join(gap.words), ", ".join(gap.signals), gap.target),
            )
        )
    return table
