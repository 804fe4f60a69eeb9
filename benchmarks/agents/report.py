"""Turns the records of runs into a table, as JSON and as Markdown.

    python -m benchmarks.agents.report RUN... [--out benchmarks/results] [--name agents]

A run that was judged again counts as it is now. Where the same task was done with the server and
without, the rows stand one below the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.agents.plan import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import recording

COLUMNS = (
    "task",
    "agent",
    "server",
    "confirmed",
    "best seen",
    "s to 95 %",
    "confirmed s to 95 %",
    "calls",
    "errors",
    "tokens shown",
    "asks followed",
    "unclear (beyond 8 %)",
)


def row(record: dict[str, Any]) -> list[str]:
    """One line of the table, in the order of COLUMNS; "-" for what the run cannot tell."""
    asks, steps, confirmed = record["asks"], record["steps"], record["confirmed"]
    seen = record["curve"][-1][1] if record["curve"] else None
    figure = _figure(confirmed["fitness"]) if confirmed["status"] == "correct" else None
    share = f"{asks['followed']} of {asks['given'] - asks['open']}" if asks["given"] else "-"
    unclear = f"{steps['unclear']} ({steps['unclear_beyond_8']}) of {steps['compared']}"
    server = record["with_server"]
    return [
        record["task"],
        record["agent"],
        "yes" if server else "no",
        figure or confirmed["status"],
        _figure(seen),
        _seconds(record["time_to_95_s"]),
        _seconds(record["confirmed_95_s"]),
        str(sum(record["calls"].values())) if server else "-",
        str(sum(record["errors"].values())) if server else "-",
        f"{sum(kind['tokens'] for kind in record['shown'].values()):,}" if server else "-",
        share,
        unclear if steps["compared"] else "-",
    ]


def totals(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over all runs with the server: the share of asks that were followed, and medians."""
    served = [r for r in records if r["with_server"]]
    given = sum(r["asks"]["given"] - r["asks"]["open"] for r in served)
    times = [r["time_to_95_s"] for r in served if r["time_to_95_s"] is not None]
    return {
        "runs": len(records),
        "asks_that_count": given,
        "asks_followed": sum(r["asks"]["followed"] for r in served),
        "followed_share": round(sum(r["asks"]["followed"] for r in served) / given, 3)
        if given
        else None,
        "largest_first_ask_tokens": max(
            (r["asks"].get("largest_first_tokens", 0) for r in served), default=0
        ),
        "largest_later_ask_tokens": max(
            (r["asks"].get("largest_later_tokens", 0) for r in served), default=0
        ),
        "median_time_to_95_s": statistics.median(times) if times else None,
        "unclear_beyond_8": sum(r["steps"]["unclear_beyond_8"] for r in served),
    }


def markdown(records: Sequence[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(row(record))} |" for record in records]
    lines += ["", "Over all runs with the server:", ""]
    lines += [f"- {name.replace('_', ' ')}: {value}" for name, value in totals(records).items()]
    for record in records:
        said = " ".join(record["said"].split())
        lines += ["", f"**{record['run']}** said: {said[-600:] or 'nothing'}"]
    return "\n".join([*lines, ""])


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}x"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def read(run: Path) -> dict[str, Any]:
    """Raises SystemExit where a run has no record."""
    try:
        found: dict[str, Any] = json.loads((run / "record.json").read_text())
    except FileNotFoundError:
        raise SystemExit(
            f"{run} has no record: python -m benchmarks.agents.judge {run} makes it"
        ) from None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--name", default="agents")
    given = parser.parse_args()
    records = sorted(
        map(read, given.runs), key=lambda r: (r["target"], r["task"], r["agent"], r["with_server"])
    )
    whole = {"machine": recording.machine(["torch", "mcp"]), "totals": totals(records)}
    recording.write(given.out, given.name, {**whole, "runs": records})
    (given.out / f"{given.name}.md").write_text(markdown(records))
    print(markdown(records))


if __name__ == "__main__":
    main()
