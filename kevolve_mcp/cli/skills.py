"""`kevolve skills …`: review what searches have learned and decide on it, where the home is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from kevolve_mcp.errors import UsageError

from .approve import at_home, name_of
from .failures import ListingGroup
from .options import Json
from .terminal import print_json, say

if TYPE_CHECKING:
    from kevolve_mcp import api
    from kevolve_mcp.sessions import Service
    from kevolve_mcp.store import SkillState

T = TypeVar("T")
app = typer.Typer(
    cls=ListingGroup,
    add_completion=False,
    help="Review the skills that searches have learned; accept, retire, export and import them.",
    no_args_is_help=True,
)
Name = Annotated[
    str, typer.Argument(metavar="SKILL", help="A skill's name; see `kevolve skills list`.")
]
By = Annotated[str, typer.Option("--by", help="Who decides. Default: the user's login name.")]
Note = Annotated[str, typer.Option("--note", help="The reason; kept with the decision.")]
State = Annotated[
    str, typer.Option("--state", help="Only this: proposed, accepted, contradicted or retired.")
]


@app.command("list")
def list_(state: State = "", json: Json = False) -> None:
    """List all skills: state, measurements, how often they were shown and used, in how many
    sessions they helped."""
    skills = _run(lambda service: service.skills(_state(state)))
    if json:
        return _print({"skills": skills})
    for counts in skills:
        say(_line(counts))
    if not skills:
        typer.echo("There are no skills.")
    return None


@app.command()
def review(json: Json = False) -> None:
    """Show every proposed skill with its evidence, for a person to accept or retire."""

    async def read(service: Service) -> list[api.SkillDetail]:
        return [await service.skill(c.id) for c in await service.skills("proposed")]

    details = _run(read)
    if json:
        return _print({"skills": details})
    for detail in details:
        _show(detail)
        typer.echo(
            f"\nkevolve skills accept {detail.counts.id}, or: kevolve skills retire "
            f"{detail.counts.id}\n"
        )
    if not details:
        typer.echo("No skill waits for a decision.")
    return None


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Print one skill: text, pattern, evidence, counts and history."""
    detail = _run(lambda service: service.skill(name))
    if json:
        return _print({"skill": detail})
    return _show(detail)


@app.command()
def accept(name: Name, by: By = "", note: Note = "", json: Json = False) -> None:
    """Let other sessions use a skill, also one that was contradicted or retired."""
    _decided(_run(lambda service: service.decide_skill(name, "accepted", name_of(by), note)), json)


@app.command()
def retire(name: Name, by: By = "", note: Note = "", json: Json = False) -> None:
    """Take a skill out of use. Its text, evidence and history are kept."""
    _decided(_run(lambda service: service.decide_skill(name, "retired", name_of(by), note)), json)


@app.command()
def export(
    name: Name,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to write the skill's folder.")
    ],
    json: Json = False,
) -> None:
    """Write a skill as a folder in the form of agentskills.io, with its evidence, to share it by
    git."""
    written = _run(lambda service: service.export_skill(name, folder.absolute()))
    if json:
        return print_json({"folder": str(written)})
    return typer.echo(f"Written: {written}")


@app.command("import")
def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of one skill: SKILL.md, evidence.json, assets/."
        ),
    ],
    by: By = "",
    json: Json = False,
) -> None:
    """Import a skill's folder. The skill becomes proposed; its evidence is marked as foreign and
    does not count towards acceptance."""
    view = _run(lambda service: service.import_skill(folder, name_of(by)))
    if json:
        return _print({"skill": view})
    if view.merged:
        from kevolve_mcp.synthesis.wording import number

        return say(
            f"{view.id} is already known ({view.state}); it now has "
            f"{number(view.measurements, 'measurement')}."
        )
    return say(
        f"{view.id} is proposed. `kevolve skills show {view.id}` shows it, `kevolve skills accept "
        f"{view.id}` accepts it."
    )


def _run(work: Callable[[Service], Awaitable[T]]) -> T:
    return at_home("skills are reviewed", work)


def _state(text: str) -> SkillState | None:
    from kevolve_mcp.store import SkillState

    if text and text not in get_args(SkillState):
        raise UsageError(
            f"there is no state {text!r}",
            f"--state takes one of {', '.join(get_args(SkillState))}.",
        )
    return text or None  # type: ignore[return-value]


def _decided(view: api.Skill, json: bool) -> None:
    if json:
        return _print({"skill": view})
    return typer.echo(f"{view.id} is {view.state}.")


def _line(c: api.SkillCounts) -> str:
    from kevolve_mcp.synthesis.wording import number

    sinks = "" if c.standing == 1 else f", rank x {c.standing:.2f}"
    known, shown = number(c.measurements, "measurement"), number(c.retrievals, "ask")
    used, sessions = number(c.uses, "node"), number(c.sessions, "session")
    return (
        f"{c.id}  [{c.state}]  {c.title}\n"
        f"    {known}; shown in {shown}, used by {used}; gained in {c.gained} of {sessions}{sinks}"
    )


def _show(detail: api.SkillDetail) -> None:
    say(_line(detail.counts))
    if detail.pattern:
        say(f"    fits: {detail.pattern}")
    typer.echo(f"\n{detail.text}")
    for line in detail.history:
        say(line)


def _print(data: dict[str, Any]) -> None:
    from harness.types import to_json

    print_json(
        {
            name: [to_json(v) for v in value]
            if isinstance(value, (list, tuple))
            else to_json(value)
            for name, value in data.items()
        }
    )
