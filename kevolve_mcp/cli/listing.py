"""The list of commands that the help of a group shows."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class ListingGroup(TyperGroup):
    """Lists each command with the first paragraph of its docstring, however that is wrapped: rich
    would keep its line ends."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for command in self.commands.values():
            if command.help and not command.short_help:
                command.short_help = " ".join(command.help.split("\n\n")[0].split())
        super().format_help(ctx, formatter)
