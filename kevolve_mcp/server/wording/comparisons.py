"""Comparisons in words: of several kernels, or of one kernel with several parameters."""

from __future__ import annotations

from harness.types import CaseDuel
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.quantities import times
from kevolve_mcp.synthesis.wording import beyond, met_line, said

from ..results import Phrase

ALONE = "by the figures alone"
BY_FIGURES = (
    "By the figures alone: the difference is smaller than the error of the judge's clock for such "
    "short calls, or other programs were running. Longer cases in the task would decide it."
)


def compared(result: api.Compared) -> Phrase:
    """Phrase the first kernel against each of the others, these among each other, then each against
    the baseline."""
    first = result.labels[0]
    own = [d for d in result.duels if d.first == first]
    lines = [line for duel in result.duels for line in _duel_lines(duel)]
    for label, e in zip(result.labels, result.evaluations, strict=True):
        figure = (
            f"{times(e.fitness, e.interval)} over the strongest baseline"
            if e.fitness
            else said(e.message, 300)
        )
        lines.append(f"{label} ({e.id}): {e.status}, {figure}")
        lines += [
            f"  signal {s.name}: {said(s.message, 300)}" for s in e.signals if e.status == "correct"
        ]
    if own:
        lines.append(
            f"{result.processes} fresh processes of each kernel, timed in the same rounds in "
            "random order."
        )
        judged = [_judged(d) for d in own] + [_judged(c) for d in own for c in d.cases]
        lines += [BY_FIGURES] if any(text.endswith(ALONE) for text in judged) else []
        verdict = f"{first}: {'; '.join(map(_said, own))}"
    else:
        out = [
            f"{n} {e.status}"
            for n, e in zip(result.labels, result.evaluations, strict=True)
            if e.status != "correct"
        ]
        verdict = f"{first} could not be compared: {', '.join(out)}"
    inconclusive = any(d.verdict == "inconclusive" for d in own)
    if not own:
        again = Action("profile", "compares again")
        return Phrase(verdict, lines, (again,), "fix what is not correct")
    longer = Action("profile", "with the same kernels and effort=4 measures longer")
    return Phrase(verdict, lines, (longer if inconclusive else Action("submit"),))


def contest_lines(result: api.Finished) -> list[str]:
    """Return lines on how certain it is that the exported node is the best."""
    lines = []
    if result.node is not None and result.node.met is not None:
        lines.append(f"Head-to-head in the search: {met_line(result.node.id, result.node.met)}.")
    lines += [f"Head-to-head before the confirmation: {d.first} {_said(d)}" for d in result.contest]
    if result.contest and any(d.verdict != "faster" for d in result.contest):
        lines.append(
            "Where the verdict is not `faster`, the two could not be told apart, and the one that "
            "led in the search was preferred."
        )
    return [*lines, *([result.contest_note] if result.contest_note else [])]


def _said(duel: api.Duel) -> str:
    """ "1.31x [1.28, 1.34] the speed of n3 (faster)"."""
    return f"{times(duel.ratio, duel.interval)} the speed of {duel.second} ({_judged(duel)})"


def _duel_lines(duel: api.Duel) -> list[str]:
    lines = [
        f"{duel.first} over {duel.second}: {times(duel.ratio, duel.interval)}, {_judged(duel)}"
    ]
    if len(duel.cases) > 1:
        lines += [f"- {c.name}: {times(c.ratio, c.interval)}, {_judged(c)}" for c in duel.cases]
    return lines


def _judged(one: api.Duel | CaseDuel) -> str:
    """The verdict; for an inconclusive one also the side that the figures alone suggest."""
    side = beyond(one.interval) if one.verdict == "inconclusive" else ""
    return f"inconclusive, {side} {ALONE}" if side else one.verdict


def tuned(result: api.Tuned) -> Phrase:
    """Phrase the trials, best first; the unchanged file is among them."""
    best = result.trials[0]
    lines = [
        "values | status | us | over the strongest baseline | evaluation",
        *map(_line, result.trials),
    ]
    lines.append(
        "Ordered by the lower ends of the intervals, since the highest of many figures may be "
        "luck. kernel_profile(..., against=[...]) tells whether the first is a real improvement."
    )
    if not best.fitness:
        return Phrase(
            f"{len(result.trials)} choices tried; none is correct and timed",
            lines,
            advice="fix the kernel, then tune it again",
        )
    word = "the file as it is" if best.given else f"PARAMS = {best.params}"
    verdict = (
        f"{len(result.trials)} choices tried; the best by its lower bound is {word}: "
        f"{times(best.fitness, best.interval)}"
    )
    return Phrase(
        verdict,
        lines,
        (Action("submit", "answers from the store"),),
        "" if best.given else f"write PARAMS = {best.params}",
    )


def _line(trial: api.Trial) -> str:
    values = ", ".join(f"{name}={value}" for name, value in trial.params.items())
    us = f"{trial.latency_us:.4g}" if trial.latency_us is not None else "-"
    figure = times(trial.fitness, trial.interval) if trial.fitness else "-"
    return (
        f"{values}{' (as given)' if trial.given else ''} | {trial.status} | {us} | {figure} | "
        f"{trial.evaluation_id}"
    )
