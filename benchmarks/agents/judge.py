"""Judges what a run left: its last kernel, and some that led before it, all by the measurement that
ends a search (fresh processes, inputs and shapes that nobody saw).

    python -m benchmarks.agents.judge RUN... [--confirm 4]

--confirm: how many kernels at most; the last one always. With 1 there is no curve of confirmed
figures. Writes judged.json and record.json into each folder. Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.agents import plan as plans
from benchmarks.agents import record, transcript, versions
from benchmarks.agents.kernels import Kernels
from benchmarks.agents.plan import Plan

CONFIRM = 4
EVALUATE = "from kevolve_mcp.cli.main import main; main()"


@dataclass(frozen=True)
class Judged:
    """at: seconds from the run's beginning until the kernel was there. fitness: over the strongest
    baseline, None where nothing was timed."""

    at: float
    status: str
    message: str
    fitness: float | None
    source: str = ""


def leaders(run: Path, plan: Plan) -> list[tuple[float, str]]:
    """The kernels that led, in time, the one that the run ended with last; second and text.

    With the server: those of the curve, then the one of the finished session or else the best node.
    Without it, or where nothing was handed in: the versions of the agent's file."""
    calls = transcript.read(run / "transcript.jsonl", plan.began)
    with Kernels(run) as kernels:
        found = [
            (point.at, kernels.of_evaluation(point.session, point.evaluation))
            for point in record.leading(calls)
        ]
        last = kernels.last()
    if last is None:
        return versions.read(run)
    end = max((call.at + call.seconds for call in calls), default=0.0)
    before = next((at for at, source in found if source == last), end)
    return [(at, source) for at, source in found if source and at < before] + [(before, last)]


def chosen(found: Sequence[tuple[float, str]], most: int) -> list[tuple[float, str]]:
    """At most so many, evenly over their order, the last one always."""
    if len(found) <= most:
        return list(found)
    step = (len(found) - 1) / max(most - 1, 1)
    places = {len(found) - 1 - round(step * k) for k in range(most)}
    return [found[place] for place in sorted(places)]


def confirmed(run: Path, plan: Plan, kernels: Sequence[tuple[float, str]]) -> list[Judged]:
    """Raises SystemExit where the evaluator itself could not work."""
    if not kernels:
        return []
    folder = run / "judged"
    folder.mkdir(exist_ok=True)
    files = []
    for at, source in kernels:
        name = hashlib.sha256(source.encode()).hexdigest()[:8]
        files.append(folder / f"{at:07.1f}-{name}.py")
        files[-1].write_text(source)
    words = [sys.executable, "-c", EVALUATE, "evaluate", str(plan.source), *map(str, files)]
    words += ["--json", "--target", plan.target, "--language", plan.language]
    done = subprocess.run(
        words,
        cwd=plans.ROOT,
        env=plans.environment(run),
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        verdicts: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"nothing was judged: {done.stderr[-2000:]}") from None
    return [
        Judged(at, v["status"], v["message"], v["fitness"], file.name)
        for (at, _), v, file in zip(kernels, verdicts, files, strict=True)
    ]


def finish(run: Path, most: int = CONFIRM) -> dict[str, Any]:
    """Judge and record. The record."""
    plan = plans.load(run)
    judged = confirmed(run, plan, chosen(leaders(run, plan), most))
    (run / "judged.json").write_text(json.dumps([asdict(j) for j in judged], indent=1) + "\n")
    made = record.make(run)
    (run / "record.json").write_text(json.dumps(made, indent=1) + "\n")
    print(f"{run / 'record.json'}: confirmed {made['confirmed']['fitness']}", flush=True)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--confirm", type=int, default=CONFIRM)
    given = parser.parse_args()
    for each in given.runs:
        finish(each.absolute(), given.confirm)
