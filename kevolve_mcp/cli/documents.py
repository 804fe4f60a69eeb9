"""`kevolve knowledge add|list|remove|gaps`: the user's own documents, and questions without an
answer, all in this machine's home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kevolve_mcp.errors import UsageError

from .options import Json
from .terminal import announcer, print_json, say

if TYPE_CHECKING:
    from knowledge import Documents
    from knowledge.documents import Registered


def add(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder with Markdown, AsciiDoc, text, HTML or PDF files, read in place.",
        ),
    ],
    vendor: Annotated[
        str, typer.Option("--vendor", help="The target's family: acme, cpu, cuda, hip …")
    ],
    arch: Annotated[
        str, typer.Option("--arch", help="The architecture, e.g. x1; default: the whole family.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="Name of the registration; default: vendor-arch.")
    ] = "",
    json: Json = False,
) -> None:
    """Register hardware documents for a target, so that searches and asks for it return their
    passages. Run it again to read changed files."""
    from .render.documents import document_table
    from .terminal import show

    said = announcer(quiet=json)
    with _documents() as documents:
        registered = documents.add(folder, vendor, arch, name, lambda path: said(f"reading {path}"))
    if json:
        return print_json(_as_json(registered))
    show(document_table(registered))
    return say(
        "The signals and families were proposed from the documents' words; to change them, edit "
        f"{registered.review}\n"
        f"Search: kevolve knowledge search --target {registered.target} WORDS"
    )


def list_documents(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A registration, to list its documents.")
    ] = "",
    json: Json = False,
) -> None:
    """List registered documents, and which of them cannot be read."""
    from .render.documents import document_table, registration_table
    from .terminal import show

    with _documents() as documents:
        registrations, problems = documents.registered()
    if name:
        registrations = tuple(r for r in registrations if r.name == name)
        if not registrations:
            raise UsageError(
                f"no documents are registered as {name!r:.60}",
                "`kevolve knowledge list` lists all registrations.",
            )
    if json:
        return print_json(
            {"registered": [_as_json(r) for r in registrations], "problems": list(problems)}
        )
    if not registrations and not problems:
        return say(
            "no documents are registered; register some: kevolve knowledge add DIR --vendor NAME "
            "--arch NAME"
        )
    if registrations:
        show(document_table(registrations[0]) if name else registration_table(registrations))
    for problem in [*problems, *(note for r in registrations for note in r.notes)]:
        say(f"note: {problem}")
    return None


def remove(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A registration; see `kevolve knowledge list`.")
    ],
    json: Json = False,
) -> None:
    """Remove a registration of documents. The files themselves stay."""
    with _documents() as documents:
        gone = documents.remove(name)
    if json:
        return print_json({"removed": gone.name, "target": gone.target, "folder": str(gone.folder)})
    return say(f"{gone.name} is removed; its documents are still in {gone.folder}")


def gaps(
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=1000, help="Most questions to list (default: 50)."),
    ] = 50,
    json: Json = False,
) -> None:
    """List questions for which no page was found, the most frequent first."""
    import sqlite3

    from kevolve_mcp.errors import StoreError
    from knowledge import Gaps

    from .backend import choose
    from .render.documents import gap_table
    from .terminal import show

    path = choose().home("unanswered questions are kept") / "gaps.db"
    try:
        missing = Gaps(path).listed(limit)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"{path} cannot be read: {error}.", "Remove it; a new one is started."
        ) from None
    if json:
        rows = [
            {
                "words": g.words,
                "signals": g.signals,
                "target": g.target,
                "count": g.count,
                "last": g.last,
            }
            for g in missing
        ]
        return print_json({"gaps": rows})
    if not missing:
        return typer.echo("a page was found for every question so far")
    return show(gap_table(missing))


@contextmanager
def _documents() -> Iterator[Documents]:
    """The registrations of this home."""
    from knowledge import Documents

    from .backend import choose

    home = choose().home("documents are registered")
    yield Documents(home / "documents", recheck_s=0.0)


def _as_json(document: Registered) -> dict[str, Any]:
    documents = [
        {
            "path": d.path,
            "id": d.id,
            "title": d.title,
            "passages": d.passages,
            "signals": d.about.signals,
            "families": d.about.families,
            "reviewed": d.reviewed,
            "problem": d.problem,
        }
        for d in document.documents
    ]
    head = {
        "name": document.name,
        "target": document.target,
        "folder": str(document.folder),
        "review": str(document.review),
    }
    return {**head, "documents": documents, "notes": list(document.notes)}
