"""`kevolve evaluate`: judge files, or an exported package, outside of any session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from kevolve_mcp.errors import UsageError

from .failures import EXIT_FAILURE
from .options import Json, Language, MemoryLimit, Python, Server, Target, Token
from .terminal import announcer, print_json, show

if TYPE_CHECKING:
    from harness.types import Policy

    from .meeting import FileMeeting
    from .verdicts import Verdict

LibraryCalls = Literal["flag", "allow", "reject"]


def evaluate(
    task: Annotated[
        Path | None,
        typer.Argument(metavar="[TASK]", help="A task file, or a folder that holds task.py."),
    ] = None,
    candidates: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CANDIDATE]...", help="Files with class ModelNew."),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(
            "--package", metavar="DIR", help="Verify and time an exported package instead."
        ),
    ] = None,
    target: Target = "cpu",
    language: Language = "",
    python: Python = "",
    library_calls: Annotated[
        str,
        typer.Option(
            "--library-calls",
            metavar="flag|allow|reject",
            help="How to treat candidates that call library operators.",
        ),
    ] = "flag",
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="The weakest isolation to accept: namespaces, bubblewrap, landlock, process.",
        ),
    ] = "landlock",
    memory_gib: MemoryLimit = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=(
                "Measure as during a search, against the strongest baseline only, and compare "
                "more briefly: no final verdict."
            ),
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help=(
                "Examine the task and time its baselines again, replacing what this machine "
                "remembers of it."
            ),
        ),
    ] = False,
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Judge candidates: build, verify, time, diagnose. Exit code 0 only if every one is correct.

    Without --quick the measurement is the same as at the end of a session: fresh process pairs and
    seeds, held-out cases, every baseline. Of several correct candidates, the best two and all that
    may be as fast are then timed against each other in the same rounds, which takes about as long
    as judging them.
    """
    import anyio

    from . import judging
    from .backend import choose
    from .verdicts import all_correct

    allowed = replace(_policy(library_calls, isolation), memory_gib=memory_gib)
    if package is not None and (task is not None or candidates):
        raise UsageError(
            "--package takes no TASK and no CANDIDATE",
            "The package holds both: give --package DIR alone, or TASK and CANDIDATE.",
        )
    if package is not None:
        order = judging.order_package(package, allowed, quick=quick)
    else:
        order = judging.order_candidates(
            task, tuple(candidates or ()), allowed, target, language, quick=quick
        )
    verdicts: list[Verdict] = []

    async def run() -> None:
        announce = announcer(quiet=json)
        async with choose(server, token).judge(
            order, announce, python=python, fresh=fresh
        ) as judge:
            async for verdict in judge.verdicts():
                verdicts.append(verdict)
                if not json:
                    _show(verdict)
            alone = tuple(verdicts)
            met, verdicts[:] = await judge.meet(verdicts)
            if met is not None and not json:
                _show_meeting(met)
                for before, now in zip(alone, verdicts, strict=True):
                    if now.status != before.status:
                        _show(now)

    anyio.run(run)
    if json:
        print_json([v.as_json() for v in verdicts])
    if not all_correct(verdicts):
        raise typer.Exit(EXIT_FAILURE)


def _policy(library_calls: str, isolation: str) -> Policy:
    from harness.types import ISOLATION_LEVELS, Policy

    if library_calls not in get_args(LibraryCalls):
        raise UsageError(
            f"--library-calls {library_calls!r} is unknown",
            f"--library-calls takes one of {', '.join(get_args(LibraryCalls))}.",
        )
    if isolation not in ISOLATION_LEVELS:
        raise UsageError(
            f"unknown isolation level {isolation!r}",
            f"--isolation takes one of {', '.join(ISOLATION_LEVELS)}.",
        )
    return Policy(library_calls=library_calls, isolation=isolation)  # type: ignore[arg-type]


def _show(verdict: Verdict) -> None:
    from .render.verdicts import verdict_view

    show(verdict_view(verdict))


def _show_meeting(met: FileMeeting) -> None:
    from .render.verdicts import meeting_view

    show(meeting_view(met))
