"""`kevolve knowledge search|read`: the pages and skills that every author is given."""

from __future__ import annotations

from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .options import Json, Server, Token
from .terminal import print_json

app = typer.Typer(help="Find and read what is known: constraints, guidance, hardware, skills.", no_args_is_help=True)


@app.command()
def search(
    query: Annotated[list[str] | None, typer.Argument(metavar="[WORDS]...", help="What to look for.")] = None,
    signal: Annotated[
        list[str] | None, typer.Option("--signal", help="A finding to explain, e.g. memory_bound; repeatable.")
    ] = None,
    target: Annotated[str, typer.Option("--target", help="e.g. cpu; default: any.")] = "",
    language: Annotated[str, typer.Option("--language", help="e.g. cpp; default: any.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="At most so many pages [default: 5].")] = 5,
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Find pages by words, by the signals of an evaluation, or both."""
    from .connect import look_up, place
    from .looking import for_people

    words = " ".join(query or ())
    if not words and not signal:
        raise UsageError("nothing to search for", "Give words, or --signal NAME; `kevolve knowledge read index` lists all pages.")
    arguments = {"query": words, "signals": signal or [], "target": target, "language": language, "limit": limit}
    answer = look_up("knowledge_search", arguments, place(server, token))
    if json:
        print_json({"hits": answer.data["hits"], "note": answer.data.get("note", "")})
    else:
        typer.echo(for_people(answer.text))


@app.command()
def read(
    page: Annotated[str, typer.Argument(metavar="PAGE", help="A page's id, e.g. guidance/vectorization; index lists all.")],
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Print one page, whole."""
    from .connect import look_up, place
    from .looking import for_people

    remote = place(server, token)
    parts: list[str] = []
    title = ""
    offset: int | None = 0
    while offset is not None:
        answer = look_up("knowledge_read", {"page_id": page, "offset": offset}, remote)
        heading, _, text = for_people(answer.text).partition("\n")
        parts.append(text.strip("\n"))
        title = heading
        offset = answer.data.get("next_cursor")
    if json:
        print_json({"page": page, "text": "".join(parts)})
    else:
        typer.echo(f"{title}\n\n{''.join(parts)}")
