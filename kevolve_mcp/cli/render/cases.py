"""The table of cases, and notes on figures that are inconclusive or not claimed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.types import CaseResult
from kevolve_mcp.quantities import NOTHING, interval, memory, microseconds, percent, speedup

from .tables import Fitting, block, cells

# an interval above 1 is not scatter: what prevents "faster" then is a doubt, which has a signal
CLEAR = 1.05
FLATTERING = 1.1  # a naive figure this many times the honest one is mentioned
VERDICT_STYLE = {
    "faster": "green",
    "slower": "red",
    "equivalent": "yellow",
    "inconclusive": "yellow",
}


def cases_table(
    cases: Sequence[CaseResult], title: str = "", reference_cases: Collection[str] | None = None
) -> RenderableType:
    """Return one row per case: every baseline, the kernel, the speed-up over the strongest with its
    interval, and how it was run; in a terminal that is too narrow, a block per case.

    Threads and allocation policy are usually the same for all cases and then appear once, below.

    Args:
        cases: What to show.
        title: Above the table.
        reference_cases: For a package, the cases that it hands to the reference; a column then says
            what ran.
    """
    what = "kernel" if reference_cases is None else "package"
    columns = _columns(cases, what, reference_cases)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in columns:
        left = name in ("case", "verdict", "runs the", "allocation")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "allocation")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    blocks = [
        block(
            Text.assemble(columns["case"][place], f"  {speedup(c.speedup, c.interval)}  ")
            + columns["verdict"][place],
            ", ".join(
                f"{name} {columns[name][place]}"
                for name in columns
                if name not in ("case", "speed-up", "95 % interval", "verdict")
            ),
        )
        for place, c in enumerate(cases)
    ]
    said = [text for text in (_alike("threads", cases), _alike("allocation", cases)) if text]
    head = [Text(title, style="italic")] if title else []
    foot = [Text("; ".join(said), style="dim")] if said else []
    foot += [Text(text, style="dim") for text in (_memory(cases),) if text]
    return Group(*head, Fitting(table, blocks), *foot)


def _columns(
    cases: Sequence[CaseResult], what: str, reference_cases: Collection[str] | None
) -> dict[str, list[Text]]:
    """Texts by heading, one for each case."""
    rows: dict[str, list[Text]] = {"case": [Text(c.name + _marks(c)) for c in cases]}
    for name in dict.fromkeys(name for case in cases for name in case.baselines):
        rows[name] = [
            Text(microseconds(c.baselines.get(name)), style="bold" if name == c.baseline else "")
            for c in cases
        ]
    rows[what] = cells(*(microseconds(c.latency_us) for c in cases))
    rows["speed-up"] = cells(*(speedup(c.speedup) for c in cases))
    rows["95 % interval"] = cells(*(interval(c.interval) or NOTHING for c in cases))
    rows["verdict"] = [_verdict(c) for c in cases]
    rows["roofline"] = cells(*(percent(c.roofline_fraction) for c in cases))
    if not _alike("threads", cases):
        rows["threads"] = cells(*(str(c.threads) for c in cases))
    if reference_cases is not None:
        ran = ("reference" if c.name in reference_cases else "kernel" for c in cases)
        rows["runs the"] = cells(*ran)
    if len({c.allocation for c in cases if c.allocation}) > 1:
        rows["allocation"] = cells(*(c.allocation or NOTHING for c in cases))
    return rows


def _alike(name: Literal["threads", "allocation"], cases: Sequence[CaseResult]) -> str:
    """The value that all cases share, as a remark; "" where they differ or it is not known."""
    values = {getattr(case, name) for case in cases} - {""}
    return f"{name}: {values.pop()}" if len(values) == 1 else ""


def _memory(cases: Sequence[CaseResult]) -> str:
    """The peak memory of both sides, "" where it is not known."""
    figures = [
        f"{c.name}{where} {memory(own)}, {c.baseline} {memory(other)}"
        for c in cases
        for where, own, other in (
            ("", c.host_peak_bytes, c.baseline_host_peak_bytes),
            (" (device)", c.device_peak_bytes, c.baseline_device_peak_bytes),
        )
        if own is not None and other is not None
    ]
    return f"memory: {'; '.join(figures)}" if figures else ""


def _marks(case: CaseResult) -> str:
    return " (protected)" * case.protected + " (held out)" * case.held_out


def _verdict(case: CaseResult) -> Text:
    verdict = case.verdict or ("not timed" if case.correct else "wrong")
    return Text(verdict, style=VERDICT_STYLE.get(verdict, "dim" if case.correct else "red"))


def unclear_note(cases: Sequence[CaseResult], *, quick: bool = False) -> str:
    """Return why cases are inconclusive, "" where none is. quick: measured as in a search."""
    unclear = [c for c in cases if c.verdict == "inconclusive" and c.interval]
    doubted = [c for c in unclear if c.interval and c.interval[0] > CLEAR]
    wide = [c for c in unclear if c not in doubted]
    again = "measure again on a quieter machine" + (", without --quick" if quick else "")
    said = []
    if wide:
        said.append(
            f"Inconclusive: {_intervals(wide)}: the interval reaches from slower to faster, or is "
            f"wider than the difference. The samples scatter too much; {again}."
        )
    if doubted:
        said.append(
            f"Inconclusive: {_intervals(doubted)}: above 1, but the figures are in doubt; the "
            "signals say why."
        )
    return "\n".join(said)


def _intervals(cases: Sequence[CaseResult]) -> str:
    return ", ".join(f"{c.name} {interval(c.interval)}" for c in cases)


def naive_note(cases: Sequence[CaseResult]) -> str:
    """Return what timing without equal allocation behaviour would have shown, and why it is not
    claimed; "" where it flatters no case."""
    known = [
        c
        for c in cases
        if c.naive_speedup and c.speedup and c.naive_speedup > c.speedup * FLATTERING
    ]
    if not known:
        return ""
    figures = ", ".join(
        f"{c.name} {speedup(c.naive_speedup)} instead of {speedup(c.speedup)}" for c in known
    )
    return (
        f"Not claimed: {figures}. That is the result of an unfair comparison: the baseline gets "
        "its output memory fresh from the system on every call while the kernel reuses warm pages, "
        "so page faults are timed, not the work. The figures above give both sides the same "
        "allocation behaviour."
    )
