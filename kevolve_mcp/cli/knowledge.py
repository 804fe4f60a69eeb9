"""`kevolve knowledge`: the pages and skills that authors get, and what earlier sessions found. The
user's own documents are in documents.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kevolve_mcp.errors import UsageError

from . import documents
from .approve import at_home
from .failures import ListingGroup
from .options import Json, Language, Python, Server, Target, Token
from .terminal import announcer, print_json, say

if TYPE_CHECKING:
    from kevolve_mcp import api

MOST = 50  # pages of one search

app = typer.Typer(
    cls=ListingGroup,
    add_completion=False,
    help="Find and read knowledge: constraints, guidance, hardware, samples, skills.",
    no_args_is_help=True,
)
app.command()(documents.add)
app.command("list")(documents.list_documents)
app.command()(documents.remove)
app.command()(documents.gaps)


@app.command()
def search(
    query: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]...", help="What to look for.")
    ] = None,
    signal: Annotated[
        list[str] | None,
        typer.Option("--signal", help="A finding to explain, e.g. memory_bound; repeatable."),
    ] = None,
    target: Annotated[str, typer.Option("--target", help="Target, e.g. cpu; default: any.")] = "",
    language: Annotated[
        str, typer.Option("--language", help="Language, e.g. cpp; default: any.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MOST, help="Most pages to list (default: 5).")
    ] = 5,
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Find pages by words, by the signals of an evaluation, or both."""
    from .backend import choose, look_up

    words = " ".join(query or ())
    if not words and not signal:
        raise UsageError(
            "nothing to search for",
            "Give words, or --signal NAME; `kevolve knowledge read index` lists all pages.",
        )
    arguments = {
        "query": words,
        "signals": signal or [],
        "target": target,
        "language": language,
        "limit": limit,
    }
    answer = look_up(choose(server, token), "knowledge_search", arguments)
    if json:
        print_json(
            {
                "hits": answer.data["hits"],
                "note": answer.data.get("note", ""),
                "fits": answer.data.get("fits", True),
            }
        )
        return
    say(answer.text)
    if answer.data.get("next_cursor"):
        more = answer.data["total"] - answer.data["next_cursor"]
        typer.echo(f"{more} more: " + (f"--limit {MOST}" if limit < MOST else "use more words"))


@app.command()
def read(
    page: Annotated[
        str,
        typer.Argument(
            metavar="PAGE",
            help="A page's id, e.g. guidance/vectorization; the page `index` lists all.",
        ),
    ],
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Print one whole page."""
    from .backend import choose, look_through

    answers = look_through(
        choose(server, token), "knowledge_read", {"page_id": page}, place="offset"
    )
    text = "\n".join(answer.body.strip("\n") for answer in answers)
    if json:
        print_json({"page": page, "text": text})
    else:
        typer.echo(f"{answers[0].data['verdict']}\n\n{text}")


@app.command()
def similar(
    task: Annotated[
        Path, typer.Argument(metavar="TASK", help="A task file, or a folder that holds task.py.")
    ],
    target: Target = "cpu",
    language: Language = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=50, help="Most kernels to list (default: 5).")
    ] = 5,
    python: Python = "",
    json: Json = False,
) -> None:
    """Find sessions of this home that solved a similar task: how well, on which device, with which
    node.

    Opens the task to see what it computes; times nothing.
    """
    from harness.types import to_json

    from .files import find_task

    name, kernels = _similar(find_task(task), target, language, limit, python, quiet=json)
    if json:
        return print_json({"task": name, "similar": [to_json(view) for view in kernels]})
    from kevolve_mcp.server.wording.sessions import similar_line

    for view in kernels:
        say(similar_line(view))
        typer.echo(f"  kevolve show {view.session} {view.node} --section source")
    if not kernels:
        say(f"No session of this home has a kernel for a task like {name}.")
    return None


def _similar(
    task: Path, target: str, language: str, limit: int, python: str, *, quiet: bool
) -> tuple[str, tuple[api.Similar, ...]]:
    from kevolve_mcp.sessions.types import Text

    announce = announcer(quiet=quiet)
    return at_home(
        "earlier sessions are searched",
        lambda service: service.similar(
            Text(path=str(task)),
            target=target,
            language=language,
            python=python,
            limit=limit,
            progress=lambda event: announce(f"{event.stage}: {event.message}"),
        ),
    )
