"""The program `kevolve`: its commands put together."""

from __future__ import annotations

from typing import Annotated

import typer

from . import approve as approving
from . import (
    clients,
    doctor,
    evaluate,
    export,
    knowledge,
    looking,
    optimize,
    serve,
    skills,
    template,
)
from . import compile as compiling
from .failures import Invocation, TeachingGroup
from .options import Version

app = typer.Typer(
    name="kevolve",
    cls=TeachingGroup,
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
        bool, typer.Option("--debug", help="On failure print the trace; show the server's log.")
    ] = False,
) -> None:
    ctx.obj = Invocation(debug=debug)


app.command()(serve.serve)
app.command()(clients.connect)
app.command()(optimize.optimize)
app.command()(evaluate.evaluate)
app.command()(compiling.compile)
app.command()(looking.tree)
app.command()(looking.show)
app.command()(looking.diff)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(skills.app, name="skills")
app.command()(approving.approve)
app.command()(export.export)
app.command()(looking.sessions)
app.command()(doctor.doctor)
app.command()(template.template)


def main() -> None:
    """The console script."""
    app(prog_name="kevolve")
