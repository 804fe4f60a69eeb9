"""A table where the terminal is wide enough, else a block for each of its rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

UNFOLDED = 1000  # characters: a width in which no table cell wraps


class Fitting:
    """A table or blocks, by the terminal's width. table: shown from `least` columns on; without
    `least` only where no cell wraps. blocks: the same rows, for a narrower terminal."""

    def __init__(self, table: Table, blocks: Sequence[RenderableType], least: int = 0) -> None:
        self._table, self._blocks, self._least = table, blocks, least

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unfolded = options.update(max_width=UNFOLDED)
        least = self._least or Measurement.get(console, unfolded, self._table).maximum
        if least <= options.max_width:
            yield self._table
        else:
            yield from self._blocks


def block(head: Text | str, *lines: str) -> RenderableType:
    """Return a head, which is never wrapped so that it can be copied, and indented lines below."""
    title = Text(head, style="bold") if isinstance(head, str) else head
    title.overflow = "fold"
    return Group(title, *(Padding(Text(line), (0, 0, 0, 4)) for line in lines if line))


def hanging(mark: Text, text: str) -> Table:
    """Return a line whose wrapped rest is indented behind its mark."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, Text(text))
    return grid


def cells(*texts: str) -> list[Text]:
    """Return cells shown verbatim: brackets in names and reasons are not markup."""
    return [Text(text) for text in texts]
