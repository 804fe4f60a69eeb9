"""The program `kevolve`: all commands, each imported when it is looked up."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer

from .failures import Invocation, TeachingGroup
from .options import Version

# commands by name, in the order of the help: a module of this package, and its function or group
COMMANDS = {
    "serve": "serve.serve",
    "connect": "clients.connect",
    "optimize": "optimize.optimize",
    "evaluate": "evaluate.evaluate",
    "compile": "candidates.compile",
    "tree": "looking.tree",
    "show": "looking.show",
    "diff": "looking.diff",
    "approve": "approve.approve",
    "export": "export.export",
    "sessions": "looking.sessions",
    "doctor": "doctor.doctor",
    "template": "candidates.template",
    "knowledge": "knowledge.app",
    "skills": "skills.app",
}


class Commands(MutableMapping[str, Any]):
    """Typer commands by name. Each is made when it is looked up, since making all takes longer than
    most commands."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if self._made[name] is None:
            self._made[name] = _command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _command(name: str) -> Any:
    module, attribute = COMMANDS[name].split(".")
    function = getattr(import_module(f".{module}", __package__), attribute)
    if isinstance(function, typer.Typer):
        command = typer.main.get_command(function)
        command.name = name
        return command
    alone = typer.Typer(add_completion=False)
    alone.command(name)(function)
    return typer.main.get_command(alone)


class CommandLine(TeachingGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Commands()


app = typer.Typer(
    name="kevolve",
    cls=CommandLine,
    help="Write fast kernels automatically, and prove they are fast.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    ctx: typer.Context,
    version: Version = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks of failures, and the server's log.")
    ] = False,
) -> None:
    ctx.obj = Invocation(debug=debug)


def main() -> None:
    """Run the console script `kevolve`."""
    app(prog_name="kevolve")
