"""One candidate's verdict for a reader: the verdict first, then the reasons."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.types import Signal
from kevolve_mcp.cli.meeting import FileMeeting
from kevolve_mcp.cli.verdicts import Verdict
from kevolve_mcp.quantities import duration, speedup
from kevolve_mcp.synthesis.wording import quoted, said
from kevolve_mcp.visible import visible

from .cases import VERDICT_STYLE, cases_table, unclear_note

LOG_LINES = 20  # the end of a build log; the whole one is in --json
CASES_FOR = 3  # pairs of candidates whose cases are shown; --json has those of all
PAGES_FOR = 3  # signals in the suggested search command: the first ones matter most


def verdict_view(verdict: Verdict) -> RenderableType:
    """Return headline, message, signals, the log of the failed stage and the timed cases."""
    head = Text.assemble(
        (verdict.candidate, "bold"),
        "  ",
        (verdict.status, "bold green" if verdict.correct else "bold red"),
        "  ",
    )
    if verdict.fitness:
        head.append(f"F = {speedup(verdict.fitness)}")
    parts: list[RenderableType] = [head]
    body = [said(verdict.message), *(_signal(s, verdict.message) for s in verdict.signals)]
    if verdict.hint:
        body.append(f"hint: {visible(verdict.hint)}")
    parts += [Padding(Text(line), (0, 0, 0, 2)) for line in dict.fromkeys(body) if line]
    if log := _failed_log(verdict):
        parts.append(Padding(Text(log, style="dim"), (0, 0, 0, 4)))
    if any(c.latency_us is not None or c.baselines for c in verdict.cases):
        parts.append(
            Padding(
                cases_table(verdict.cases, reference_cases=verdict.reference_cases), (0, 0, 0, 2)
            )
        )
        if note := unclear_note(verdict.cases, quick=_quick(verdict)):
            parts.append(Padding(Text(note, style="yellow"), (0, 0, 0, 2)))
    else:
        known = "\n".join(body)
        parts += [
            Padding(Text(f"{c.name}: {said(c.detail)}"), (0, 0, 0, 2))
            for c in verdict.cases
            if c.detail and said(c.detail) not in known
        ]
    if verdict.signals and verdict.evaluation is not None:
        names = " ".join(f"--signal {s.name}" for s in verdict.signals[:PAGES_FOR])
        parts.append(Padding(Text(f"what to try: kevolve knowledge search {names}"), (0, 0, 0, 2)))
    return Group(*parts)


def meeting_view(met: FileMeeting) -> RenderableType:
    """Return each candidate against each later one, with its cases where there are several cases
    and at most CASES_FOR pairs."""
    head = Text("head-to-head", style="bold")
    if met.duels:
        how = f"{met.processes} fresh processes each, timed in the same rounds"
        head.append(f"  {how}, {duration(met.seconds)}", "dim")
    parts: list[RenderableType] = [head]
    for duel in met.duels:
        line = Text.assemble(
            f"{met.labels[duel.first]} over {met.labels[duel.second]}: ",
            f"{speedup(duel.ratio, duel.interval)} the speed, ",
            (duel.verdict, VERDICT_STYLE.get(duel.verdict, "")),
        )
        parts.append(Padding(line, (0, 0, 0, 2)))
        if len(duel.cases) > 1 and len(met.duels) <= CASES_FOR:
            parts += [
                Padding(
                    Text(f"{c.name}: {speedup(c.ratio, c.interval)}, {c.verdict}"),
                    (0, 0, 0, 4),
                )
                for c in duel.cases
            ]
    parts += [Padding(Text(visible(note), style="yellow"), (0, 0, 0, 2)) for note in met.notes]
    return Group(*parts)


def _signal(signal: Signal, message: str) -> str:
    return signal.name if signal.message in message else f"{signal.name}: {said(signal.message)}"


def _quick(verdict: Verdict) -> bool:
    return verdict.evaluation is not None and verdict.evaluation.purpose == "search"


def _failed_log(verdict: Verdict) -> str:
    stages = verdict.evaluation.stages if verdict.evaluation else ()
    failed = next((s for s in stages if not s.ok and s.log), None)
    return quoted("\n".join(failed.log.rstrip().splitlines()[-LOG_LINES:])) if failed else ""
