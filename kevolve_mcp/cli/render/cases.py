"""The table per case, and the figure that is not claimed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from harness.types import CaseResult

from .figures import NOTHING, cells, interval_text, microseconds, percent, speedup_text

# an interval above it is no scatter: what bars "faster" then is a doubt, which has a signal
CLEAR = 1.05
FLATTERING = 1.1  # a naive figure this much above the honest one is worth a word
VERDICT_STYLE = {
    "faster": "green",
    "slower": "red",
    "equivalent": "yellow",
    "inconclusive": "yellow",
}


def cases_table(
    cases: Sequence[CaseResult], title: str = "", reference_cases: Collection[str] | None = None
) -> Table:
    """One row per case: every baseline, the kernel, the speed-up over the strongest with its
    interval, and how it was run.

    The allocation policy is the same for all cases as a rule: then it stands once, below.
    reference_cases: of a package, the cases that it hands to the reference; what was timed is then
    the package, and a column says what ran in it.
    """
    allocations = list(dict.fromkeys(case.allocation for case in cases if case.allocation))
    baselines = list(dict.fromkeys(name for case in cases for name in case.baselines))
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", no_wrap=True)
    for name in baselines:
        table.add_column(name, justify="right")
    for name in ("kernel" if reference_cases is None else "package", "speed-up", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    table.add_column("roofline", justify="right")
    table.add_column("threads", justify="right")
    if reference_cases is not None:
        table.add_column("runs the")
    if len(allocations) == 1:
        table.caption = f"allocation: {allocations[0]}"
        table.caption_justify = "left"
    else:
        table.add_column("allocation")
    for case in cases:
        runs = (
            ()
            if reference_cases is None
            else cells("reference" if case.name in reference_cases else "kernel")
        )
        table.add_row(
            *[*_row(case, baselines), *runs, *cells(case.allocation or NOTHING)][
                : len(table.columns)
            ]
        )
    return table


def unclear_note(cases: Sequence[CaseResult], *, quick: bool = False) -> str:
    """Why no verdict was reached where none was; "" where each case has one. quick: it was measured
    as in a search."""
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
            f"Inconclusive: {_intervals(doubted)}: above 1 by the figures, which are not vouched "
            "for; the signals say why."
        )
    return "\n".join(said)


def _intervals(cases: Sequence[CaseResult]) -> str:
    return ", ".join(f"{c.name} {interval_text(c.interval)}" for c in cases)


def _row(case: CaseResult, baselines: Sequence[str]) -> list[Text]:
    marks = "".join((" (protected)" * case.protected, " (held out)" * case.held_out))
    verdict = case.verdict or ("not timed" if case.correct else "wrong")
    return [
        Text(case.name + marks),
        *(
            Text(
                microseconds(case.baselines.get(name)),
                style="bold" if name == case.baseline else "",
            )
            for name in baselines
        ),
        *cells(
            microseconds(case.latency_us),
            speedup_text(case.speedup),
            interval_text(case.interval) or NOTHING,
        ),
        Text(verdict, style=VERDICT_STYLE.get(verdict, "dim" if case.correct else "red")),
        *cells(percent(case.roofline_fraction), str(case.threads)),
    ]


def naive_note(cases: Sequence[CaseResult]) -> str:
    """What timing without equal allocation behaviour would have shown, and why it is not claimed;
    "" where it flatters no case."""
    known = [
        c
        for c in cases
        if c.naive_speedup and c.speedup and c.naive_speedup > c.speedup * FLATTERING
    ]
    if not known:
        return ""
    figures = ", ".join(
        f"{c.name} {speedup_text(c.naive_speedup)} instead of {speedup_text(c.speedup)}"
        for c in known
    )
    return (
        f"Not claimed: {figures}. That is what an unfair comparison shows: the baseline's output "
        "memory is fresh from the system on every call while the kernel reuses warm pages, so page "
        "faults are timed and not the work. The figures above give both sides the same allocation "
        "behaviour."
    )
