"""Numbers as text, the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.types import CaseResult
from kevolve_mcp import api
from kevolve_mcp.quantities import latency, memory, share, times
from kevolve_mcp.synthesis.wording import said, settings

ROOM = 1.5  # tolerance over error; less is not worth mentioning
FLOOR = 0.3  # share of a call's time from which the evaluator's own part is mentioned
WARMER = 0.8  # warm over cold time; above it the two are about the same


def node_line(node: api.Node) -> str:
    """Return one node on one line: id, figure, origin, hypothesis."""
    figure = times(node.fitness, node.interval) if node.status == "correct" else node.status
    source = (
        f" from {', '.join(node.parents)}"
        if node.parents
        else f" ({node.origin})"
        if node.origin
        else " (root)"
    )
    effect = f", {times(node.versus_parent)} its parent" if node.versus_parent is not None else ""
    params = f" {settings(node.params)}" if node.params else ""
    hypothesis = f": {said(node.hypothesis, 100)}" if node.hypothesis else ""
    signals = f" [{', '.join(node.signals[:4])}]" if node.signals else ""
    reservation = (
        ""
        if node.eligible or node.status != "correct" or node.fitness is None
        else ", not eligible"
    )
    return (
        f"{node.id} {figure}{effect}{reservation}{source}, {node.role}{params}{hypothesis}{signals}"
    )


def case_line(case: CaseResult) -> str:
    if not case.correct and case.latency_us is not None:  # of an ablation
        versus = f"{times(case.speedup, case.interval)} the speed of {case.baseline}"
        return (
            f"- {case.name}: wrong, {latency(case.latency_us)}, {versus}. {said(case.detail, 200)}"
        )
    if not case.correct:
        return f"- {case.name}: wrong. {said(case.detail)}"
    if case.speedup is None:
        return f"- {case.name}: correct{_accuracy(case)}"
    taken = f", {latency(case.latency_us)}{_warm(case)}" if case.latency_us is not None else ""
    others = ", ".join(f"{name} {latency(value)}" for name, value in case.baselines.items())
    ceiling = f" ({said(case.ceiling)})" if case.ceiling else ""
    roofline = (
        f", {share(case.roofline_fraction)} of the ceiling{ceiling}"
        if case.roofline_fraction is not None
        else ""
    )
    figure = f"{times(case.speedup, case.interval)} {case.verdict or ''} over {case.baseline}"
    note = (
        f"; {said(case.detail)}" if case.detail else ""
    )  # why the figure is not the candidate's own
    return (
        f"- {case.name}: {figure}{taken}{roofline} ({others}){_accuracy(case)}{_memory(case)}"
        f"{_floor(case)}{note}"
    )


def _floor(case: CaseResult) -> str:
    """The evaluator's own part of a call's time, where it is large."""
    if not case.nothing_us or not case.latency_us or case.nothing_us < FLOOR * case.latency_us:
        return ""
    # measured by other calls: on a busy machine it may seem longer than the call that includes it
    part = latency(min(case.nothing_us, case.latency_us))
    return f"; an empty call takes {part} of the {latency(case.latency_us)}, and of the baseline's"


def _warm(case: CaseResult) -> str:
    """The time of the same call with warm caches; "" where it is about the same or was not
    measured."""
    if not case.warm_us or not case.latency_us or case.warm_us > WARMER * case.latency_us:
        return ""
    return f" ({latency(case.warm_us)} with warm caches)"


def _accuracy(case: CaseResult) -> str:
    """The error and what the tolerance leaves; "" where results are exact or were not compared."""
    if case.error is None or not case.tolerance:
        return ""
    room = case.tolerance / case.error if case.error else 0.0
    left = f"; the error may grow {room:.2g}x" if room >= ROOM else ""
    return f"; error {case.error:.2g} of the norm, allowed {case.tolerance:.2g}{left}"


def _memory(case: CaseResult) -> str:
    """The memory of its process and of the baseline's; "" where it is not known."""
    figures = [
        f"{where}{memory(own)} ({case.baseline} {memory(other)})"
        for where, own, other in (
            ("", case.host_peak_bytes, case.baseline_host_peak_bytes),
            ("on the device ", case.device_peak_bytes, case.baseline_device_peak_bytes),
        )
        if own is not None and other is not None
    ]
    return f"; holds {', '.join(figures)}" if figures else ""


def evaluation_lines(evaluation: api.Evaluation) -> list[str]:
    """Return the cases, the number of processes if it is more than usual, then the signals with
    their messages."""
    from kevolve_mcp.sessions.evaluating import USUAL_PROCESSES

    lines = [case_line(c) for c in evaluation.cases]
    if evaluation.processes > USUAL_PROCESSES:
        lines.append(f"Timed in {evaluation.processes} fresh processes.")
    lines += [f"signal {s.name}: {said(s.message)}" for s in evaluation.signals]
    return lines


def budget_left(session: api.Session) -> str:
    """ "12 of 40 evaluations, 80 of 240 s", "no limit" without any."""
    parts = []
    if (limit := session.budget.evaluations) is not None:
        parts.append(f"{session.spent.evaluations} of {limit} evaluations")
    if session.budget.seconds is not None:
        parts.append(f"{session.spent.seconds:.0f} of {session.budget.seconds:.0f} s")
    if session.budget.device_seconds is not None:
        parts.append(
            f"{session.spent.device_seconds:.0f} of {session.budget.device_seconds:.0f} device "
            "seconds"
        )
    if session.budget.tokens is not None:
        parts.append(f"{session.spent.tokens:,} of {session.budget.tokens:,} tokens")
    if session.budget.usd is not None:
        parts.append(f"{session.spent.usd:.4g} of {session.budget.usd:.4g} US dollars")
    return ", ".join(parts) or f"{session.spent.evaluations} evaluations, no limit"


def plainly(data: Any) -> str:
    """Return figures by name as text: "spills 7, calls 5; flags -O3 -DUNROLL=4". Zeros and empty
    parts are left out."""
    if isinstance(data, Mapping):
        parts = [
            (str(name).replace("_", " "), plainly(value))
            for name, value in data.items()
            if value not in (0, None, "")
        ]
        nested = any(isinstance(value, Mapping | list | tuple) for value in data.values())
        return ("; " if nested else ", ").join(f"{name} {words}" for name, words in parts if words)
    if isinstance(data, list | tuple):
        simple = all(isinstance(value, str | int | float) for value in data)
        return (" " if simple else "; ").join(filter(None, map(plainly, data)))
    if isinstance(data, bool):
        return "yes" if data else "no"
    return f"{data:.4g}" if isinstance(data, float) else str(data)


def listed(items: Iterable[str], limit: int = 8) -> str:
    texts: Sequence[str] = list(items)
    rest = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + rest


def left_in_words(left: api.Left) -> str:
    """ "28 evaluations, 160 s"."""
    parts = []
    if (count := left.evaluations) is not None:
        parts.append(f"{count} evaluation{'' if count == 1 else 's'}")
    if left.seconds is not None:
        parts.append(f"{left.seconds:.0f} s")
    if left.device_seconds is not None:
        parts.append(f"{left.device_seconds:.0f} device seconds")
    if left.tokens is not None:
        parts.append(f"{left.tokens:,} tokens")
    if left.usd is not None:
        parts.append(f"{left.usd:.4g} US dollars")
    return ", ".join(parts)
