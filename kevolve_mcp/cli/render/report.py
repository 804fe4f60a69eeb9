"""The report of a run: the figures that are claimed, the one that is not, the lineage of the winner
and the path of the package."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from harness.types import CaseResult, to_json
from kevolve_mcp import api
from kevolve_mcp.driver import RunOutcome
from kevolve_mcp.quantities import speedup
from kevolve_mcp.search import dispatch
from kevolve_mcp.synthesis.machine import device

from .cases import cases_table, naive_note, unclear_note
from .figures import device_use


def claimed(ending: api.Finished) -> tuple[CaseResult, ...]:
    """Return the cases of the measurement to report: the package as a user calls it, else the
    re-validation.

    The naive figure is taken from the re-validation where the package's measurement lacks it.
    """
    confirmed = {c.name: c for c in ending.confirmed.cases} if ending.confirmed else {}
    if not ending.measured or not ending.measured.cases:
        return tuple(confirmed.values())
    return tuple(
        replace(c, naive_speedup=confirmed[c.name].naive_speedup)
        if c.naive_speedup is None and c.name in confirmed
        else c
        for c in ending.measured.cases
    )


def lineage_lines(lineage: tuple[api.Node, ...]) -> list[str]:
    """Return one line per ancestor, oldest first; a start has its origin."""
    lines = []
    for node in lineage:
        label = _origin(node)
        parents = f" from {' + '.join(node.parents)}" if len(node.parents) > 1 else ""
        figure = speedup(node.fitness, node.interval)
        lines.append(f"{node.id}  {figure}  {label}{parents}  {_change(node)}".rstrip())
    return lines


def report_view(
    outcome: RunOutcome, copied_to: str = "", reference_cases: tuple[str, ...] = ()
) -> RenderableType:
    """Return the report of a run. copied_to: where --output put a copy of the package.
    reference_cases: those that the package hands to the reference."""
    session, ending = outcome.session, outcome.ending
    tree = Text(f"tree      kevolve tree {session.id}")
    if ending is None or ending.node is None:
        why = f"{session.id}: nothing to export: {ending.reason if ending else outcome.reason}"
        return Group(Text(why, style="bold yellow"), *_rejected(ending), tree)
    cases = claimed(ending)
    figure = ending.measured or ending.confirmed
    head = Text.assemble(
        (f"{session.id}: ", "bold"),
        (
            speedup(
                figure.fitness if figure else ending.node.fitness,
                figure.interval if figure else None,
            ),
            _style(figure),
        ),
        f" over the strongest baseline, node {ending.node.id} of {session.nodes}",
    )
    how = (
        "the exported package, measured as a user calls it"
        if ending.measured
        else "the winner, re-validated in fresh processes"
    )
    parts: list[RenderableType] = [
        head,
        Text(f"the search ended: {_in_words(outcome.reason)}", style="dim"),
        *([Text(device_use(outcome.use), style="dim")] if outcome.use.wall_s else []),
        *(Text(text, style="bold yellow") for text in ending.unmet_goals),
        Text(""),
        cases_table(cases, f"per case: {how}", reference_cases if ending.measured else None),
    ]
    if figure and figure.device:
        parts.append(
            Text(
                f"on {device(figure.device)}; {figure.toolchain}; isolation {figure.isolation}",
                style="dim",
            )
        )
    if ending.measured and (overhead := dispatch(ending.measured.cases)):
        text = f"dispatch overhead per call, in µs with warm caches: {overhead}"
        parts.append(Text(text, style="dim"))
    for note in filter(None, (unclear_note(cases), naive_note(cases))):
        parts += [Text(""), Text(note, style="yellow")]
    parts += [
        Text(""),
        Text("lineage of the winner", style="bold"),
        *(Text(f"  {line}") for line in lineage_lines(ending.lineage)),
    ]
    parts += [*_rejected(ending), *_skills(ending), Text("")]
    if ending.package:
        parts.append(Text(f"package   {copied_to or ending.package}"))
        parts.append(Text(f"re-check  kevolve evaluate --package {copied_to or ending.package}"))
    return Group(*parts, tree)


def report_json(outcome: RunOutcome, copied_to: str = "") -> dict[str, Any]:
    """Return the object that `kevolve optimize --json` prints."""
    session, ending = outcome.session, outcome.ending
    figure = (ending.measured or ending.confirmed) if ending else None
    cases = claimed(ending) if ending else ()
    return {
        "session": session.id,
        "state": session.state,
        "reason": outcome.reason,
        "nodes": session.nodes,
        "spent": to_json(session.spent),
        "device_use": to_json(outcome.use),
        "node": ending.node.id if ending and ending.node else None,
        "fitness": figure.fitness if figure else None,
        "interval": to_json(figure.interval) if figure else None,
        "cases": [to_json(c) for c in cases],
        "unmet_goals": list(ending.unmet_goals) if ending else [],
        "not_claimed": naive_note(cases),
        "lineage": [to_json(n) for n in ending.lineage] if ending else [],
        "rejected": dict(ending.rejected) if ending else {},
        "skills": [to_json(s) for s in ending.skills] if ending else [],
        "package": (copied_to or ending.package) if ending else "",
        "tree": f"kevolve tree {session.id}",
    }


def _in_words(reason: str) -> str:
    """Why a search ended, in words: from a sentence, or a name such as budget_spent."""
    return reason.replace("_", " ") if reason.isidentifier() else reason


def _style(figure: api.Evaluation | None) -> str:
    """Green for a figure that is certainly faster, yellow for the rest."""
    return "bold green" if figure and figure.interval and figure.interval[0] > 1 else "bold yellow"


def _origin(node: api.Node) -> str:
    if node.origin is None:
        return f"[{node.role}]"
    return f"[{'start' if node.origin.kind == 'user_file' else 'borrowed'}: {node.origin}]"


def _change(node: api.Node) -> str:
    """What was changed: in the author's words, else the parameters; "" for a start, which its
    origin describes."""
    if node.origin:
        return ""
    return (
        node.hypothesis.splitlines()[0]
        if node.hypothesis
        else ", ".join(f"{k}={v}" for k, v in node.params.items())
    )


def _rejected(ending: api.Finished | None) -> list[RenderableType]:
    rejected = ending.rejected if ending else {}
    return [Text(f"not confirmed: {node}: {why}", style="yellow") for node, why in rejected.items()]


def _skills(ending: api.Finished) -> list[RenderableType]:
    return [Text(f"skill     {s.title} ({s.state}, {speedup(s.effect)})") for s in ending.skills]
