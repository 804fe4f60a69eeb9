"""What a search of parameters found, as a table."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.quantities import times

from ..phrase import Phrase


def tuned(result: api.Tuned) -> Phrase:
    """Best first; the file as it was is among them."""
    best = result.trials[0]
    lines = [
        "values | status | us | over the strongest baseline | evaluation",
        *map(_line, result.trials),
    ]
    lines.append(
        "Ordered by the lower ends of the intervals, since the highest of many figures is a lucky "
        "one. Whether the first is a step, kernel_profile(..., against=[...]) tells."
    )
    if not best.fitness:
        return Phrase(
            f"{len(result.trials)} choices tried, none is correct and timed",
            lines,
            advice="fix the kernel, then tune it again",
        )
    word = "the file as it is" if best.given else f"PARAMS = {best.params}"
    verdict = (
        f"{len(result.trials)} choices tried; most is assured of {word}: "
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
