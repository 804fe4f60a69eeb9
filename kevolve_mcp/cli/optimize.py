"""`kevolve optimize`: from a task to an exported kernel, with live progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kevolve_mcp.errors import UsageError

from .failures import EXIT_FAILURE, EXIT_INTERRUPTED
from .options import Json, Language, MemoryLimit, Python, Server, Target, Token, parse_target
from .terminal import print_json, show

if TYPE_CHECKING:
    from harness.types import Budget
    from kevolve_mcp.sessions.types import SessionSpec

# options that define a session
DESCRIBING = (
    "task",
    "start",
    "target",
    "language",
    "goal",
    "selection",
    "seed",
    "inject",
    "tune",
    "memory_gib",
    "new",
    "python",
)


def optimize(
    ctx: typer.Context,
    task: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TASK]",
            help="A task file, or a folder with task.py (and start.py, start_LANGUAGE.py).",
        ),
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--start", metavar="FILE", help="A kernel to start from.")
    ] = None,
    target: Target = "cpu",
    language: Language = "",
    goal: Annotated[
        str, typer.Option("--goal", help="best, speedup:2, latency_us:50, roofline:0.8")
    ] = "best",
    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations",
            min=1,
            help="Stop after this many evaluations (default: 40; no limit with --minutes).",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            min=0.01,
            help=(
                "Stop searching after this many minutes (default: 1.25 with the offline author, 30 "
                "with others; no limit with --evaluations)."
            ),
        ),
    ] = None,
    no_skills: Annotated[
        bool, typer.Option("--no-skills", help="Take no starting kernels from skills.")
    ] = False,
    author: Annotated[
        str,
        typer.Option(
            "--author",
            help=(
                "Who writes the candidates: offline, openai:MODEL, anthropic:MODEL, google:MODEL, "
                "claude, codex, gemini or 'cmd: COMMAND'."
            ),
        ),
    ] = "offline",
    base_url: Annotated[
        str,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="An OpenAI-compatible server for --author openai:MODEL.",
        ),
    ] = "",
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Stop after the author used this many tokens."),
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0.0001, help="Stop after the author spent this many US dollars."),
    ] = None,
    price_in: Annotated[
        float | None,
        typer.Option(
            "--price-in",
            min=0,
            help="US dollars per million input tokens of the model. Default: a price table.",
        ),
    ] = None,
    price_out: Annotated[
        float | None,
        typer.Option("--price-out", min=0, help="US dollars per million output tokens."),
    ] = None,
    author_minutes: Annotated[
        float | None,
        typer.Option("--author-minutes", min=0.01, help="Time for one proposal (default: 10)."),
    ] = None,
    selection: Annotated[
        str,
        typer.Option(
            "--selection",
            help="Selection policy: greedy, evolutionary, mcts, or one from an installed package.",
        ),
    ] = "",
    seed: Annotated[int | None, typer.Option("--seed", help="The search's random seed.")] = None,
    inject: Annotated[
        float | None,
        typer.Option(
            "--inject",
            min=0,
            max=1,
            help=(
                "Share of asks that show a kernel for a similar task from an earlier session "
                "(default: 0.1)."
            ),
        ),
    ] = None,
    tune: Annotated[
        float | None,
        typer.Option(
            "--tune",
            min=0,
            max=1,
            help=(
                "Share of the budget for searching parameters while the author writes (default: "
                "0.2)."
            ),
        ),
    ] = None,
    memory_gib: MemoryLimit = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel",
            min=1,
            max=16,
            help="Asks open at once (default: 2 for a new search on CUDA, else 1).",
        ),
    ] = None,
    resume: Annotated[
        str,
        typer.Option(
            "--resume",
            metavar="SESSION",
            help="Go on with this session; limits then count from now on.",
        ),
    ] = "",
    new: Annotated[
        bool, typer.Option("--new", help="Open another session even if an equal one is open.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Also copy the package to this folder."),
    ] = None,
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Search for a faster kernel, prove that it is faster, export it.

    Ctrl-C stops cleanly and keeps everything; --resume goes on. Running the same command again
    joins the open session.
    """
    from harness.types import Budget
    from kevolve_mcp.executors.devices import JUDGES, placed
    from kevolve_mcp.synthesis.authors import AuthorOptions

    from . import running
    from .backend import choose

    _check(ctx, task, resume)
    running.check_destination(output)
    named = Budget(evaluations, minutes and minutes * 60, tokens=tokens, usd=usd)
    session = None
    if task is not None:
        chosen = {"selection": selection, "seed": seed, "inject": inject, "tune": tune}
        session = _session(
            task,
            start,
            target=target,
            language=language,
            goal=goal,
            budget=running.usual_budget(named, author),
            python=python,
            memory_gib=memory_gib,
            search={"skills": not no_skills, **chosen},
            new=new,
        )
    run = running.Run(
        session,
        author,
        AuthorOptions(
            skills=not no_skills,
            base_url=base_url,
            price_in=price_in,
            price_out=price_out,
            limit_s=author_minutes and author_minutes * 60,
            usd_capped=usd is not None,
        ),
        resume=resume,
        more=named,
        parallel=parallel or (JUDGES if placed(target) else 1),
        contents=output is not None,
        debug=bool(getattr(ctx.find_root().obj, "debug", False)),
    )
    watcher = running.Watcher(live=not json)
    try:
        outcome = running.execute(run, choose(server, token), watcher)
    except KeyboardInterrupt:
        typer.echo(running.how_to_resume(watcher.session_id, server), err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Exception:
        if watcher.session_id:
            typer.echo(running.how_to_resume(watcher.session_id, server), err=True)
        raise
    copied = running.copy_package(outcome, output) if output else ""
    if json:
        from .render.report import report_json

        print_json(report_json(outcome, copied))
    else:
        from .render.report import report_view

        show(report_view(outcome, copied, running.handed_over(outcome)))
    if outcome.ending is None or not outcome.ending.package:
        raise typer.Exit(EXIT_FAILURE)


def _session(
    task: Path,
    start: Path | None,
    *,
    target: str,
    language: str,
    goal: str,
    budget: Budget,
    python: str,
    memory_gib: float | None,
    search: dict[str, Any],
    new: bool,
) -> SessionSpec:
    """What to open, by paths on this machine. search: options, None or empty where not given.
    Raises UsageError."""
    from harness.types import Goal, Policy
    from kevolve_mcp.sessions.types import SearchOptions, SessionSpec, Text

    from .files import find_task

    parse_target(target)
    try:
        parsed = Goal.parse(goal)
    except ValueError as error:
        raise UsageError(str(error), "`kevolve optimize --help` shows examples.") from None
    return SessionSpec(
        Text(path=str(find_task(task))),
        target=target,
        language=language,
        goal=parsed,
        budget=budget,
        start=Text(path=str(start.expanduser().absolute()) if start else ""),
        python=python,
        policy=Policy(memory_gib=memory_gib),
        search=SearchOptions(**{k: v for k, v in search.items() if v not in (None, "")}),
        new=new,
    )


def _check(ctx: typer.Context, task: Path | None, resume: str) -> None:
    if task is None and not resume:
        raise UsageError(
            "no task named", "kevolve optimize TASK  or  kevolve optimize --resume SESSION"
        )
    sources = {name: ctx.get_parameter_source(name) for name in DESCRIBING}
    ignored = [
        name
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]
    if resume and ignored:
        word = "TASK" if ignored[0] == "task" else f"--{ignored[0].replace('_', '-')}"
        raise UsageError(
            f"--resume takes no {word}",
            "The session already defines what it searches for and how. --evaluations, --minutes, "
            "--tokens and --usd say how much more it may spend; the author's options, --parallel, "
            "--output, --json and the server's options may also be given.",
        )
