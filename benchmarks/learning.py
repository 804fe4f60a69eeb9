"""Does it pay to keep what earlier searches found? Evaluations that a search needs, without any
language model.

    python benchmarks/learning.py [--out benchmarks/results] [--join] [--quick] [--seeds 3]
    [--evaluations 10] [--arms empty,pages,left,library]

The offline author searches held-out tasks of four families (row normalizations, softmax losses,
elementwise chains, lookups) from the same plain kernel with 54 settings, in four conditions:

* empty: no skill, no earlier session: it varies the kernel's parameters;
* pages: the same; asks carry pages, which this author does not read. So it is the control: what
  differs from "empty" is chance;
* left: a home with the sessions on the families' other tasks, which the skills that ship had found
  kernels for; here no skill ships;
* library: that home, and the skills that ship.

Each search has a home of its own; those of the last two begin as copies of one in which the other
tasks were searched with the same seed and budget. A kernel's fitness is the median over all
searches that measured it, since one measurement may be lucky; best known is the highest of a task,
of kernels that at least two searches measured. Counted: evaluations until a kernel of 95 % of it,
the budget plus one where there was none. Every search is written down at once; --join goes on with
the record that is there, of the same machine and protocol only. Needs a machine for hours: a line
after each search says how long the rest will take. --quick: two tiny tasks, to see that it runs;
its figures say nothing. Writes learning.json, or learning_quick.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recording
from related import FAMILIES, QUICK, Related

from harness.types import PROTOCOL_VERSION, Budget, Candidate
from kevolve_mcp import api
from kevolve_mcp.executors.local import LocalExecutor
from kevolve_mcp.sessions import Service
from kevolve_mcp.sessions.types import (
    SearchOptions,
    SessionSpec,
    SubmitRequest,
    Text,
)
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors import Exhausted
from kevolve_mcp.synthesis.authors.offline import OfflineAuthor

ARMS = ("empty", "pages", "left", "library")
WITH_SKILLS = ("library",)
WITH_SESSIONS = ("left", "library")
SHARE = 0.95


class Lasting(LocalExecutor):
    """A judge for many services: each closes its executors, and a judge takes ten seconds to
    start."""

    async def close(self) -> None:
        """Left to `end`."""

    async def end(self) -> None:
        await super().close()


@dataclass(frozen=True)
class Plan:
    """What is to be run: held-out tasks, those to learn on, and the rest."""

    held_out: tuple[Related, ...]
    learned: tuple[Related, ...]
    arms: tuple[str, ...]
    seeds: int
    evaluations: int

    def searches(self) -> list[tuple[int, Related, str]]:
        """Conditions take turns on each task, so that a machine that changes slowly changes for all
        of them."""
        return [
            (seed, task, arm)
            for seed in range(self.seeds)
            for task in self.held_out
            for arm in self.arms
        ]


async def search(
    home: Path,
    executor: Lasting,
    folder: Path,
    task: Related,
    seed: int,
    arm: str,
    evaluations: int,
) -> dict[str, Any]:
    """One search: the fitness of each evaluation in order, 0 for what was not proved correct, and
    what it was made from."""
    author = OfflineAuthor(() if arm not in WITH_SKILLS else None)
    path = folder / task.name / "task.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(task.task)
    began, fitness, origins, kernels = time.monotonic(), [], [], []
    async with Service(Settings(home=home), lambda python, near: executor) as service:
        request = SessionSpec(
            Text(path=str(path)),
            budget=Budget(evaluations=evaluations),
            start=Text(source=task.start),
            # what is found must not depend on how fast the author answers
            search=SearchOptions(skills=arm in WITH_SKILLS, seed=seed, tune=0.0),
            new=True,
        )
        opened = await _done(service, await service.open(request))
        ended = "nothing was left to try"
        while True:
            # whole asks: this author keeps nothing, so what an ask only refers to is lost on it
            batch = await service.next(opened.session_id, fresh=True)
            if not batch.asks:
                ended = batch.ended
                break
            ask = batch.asks[0].context
            try:
                proposal = author.answer(ask)
            except Exhausted:
                break
            submit = SubmitRequest(
                opened.session_id,
                Text(source=proposal.source),
                ask.id,
                hypothesis=proposal.hypothesis,
            )
            result = (await _done(service, await service.submit(submit))).result
            assert isinstance(result, api.Evaluated)
            fitness.append(round(result.evaluation.fitness or 0.0, 4))
            origins.append(ask.start.origin if ask.start else ask.role)
            kernels.append(Candidate(proposal.source, ask.language).digest[:12])
    return {
        "arm": arm,
        "task": task.name,
        "family": task.family,
        "seed": seed,
        "fitness": fitness,
        "origins": origins,
        "kernels": kernels,
        "ended": ended,
        "seconds": round(time.monotonic() - began, 1),
    }


async def _done(service: Service, job: api.Job) -> api.Job:
    while job.state == "running":
        job = await service.wait(job.id, 30)
    if job.state != "done":
        raise RuntimeError(f"{job.kind} of {job.session_id}: {job.state} {job.error}")
    return job


async def learn(work: Path, executor: Lasting, plan: Plan, seed: int) -> Path:
    """The home in which the other tasks were searched with this seed; made once, and kept in `work`
    while this program runs."""
    home = work / f"learned-{seed}"
    if not home.exists():
        part = work / f"learned-{seed}.part"
        shutil.rmtree(part, ignore_errors=True)
        for task in plan.learned:
            found = await search(
                part, executor, work / "tasks", task, seed, "library", plan.evaluations
            )
            print(
                f"learned {task.name}, seed {seed}: {max(found['fitness'], default=0.0):.3g} in "
                f"{found['seconds']} s",
                flush=True,
            )
        part.rename(home)
    return home


async def run(plan: Plan, out: Path, name: str, *, join: bool) -> dict[str, Any]:
    """The record, written after every search. Raises SystemExit where it cannot be joined."""
    with tempfile.TemporaryDirectory(prefix="learning-") as folder:
        work = Path(folder)
        executor = Lasting(None, work / "cache")
        try:
            report = await executor.describe()
            machine = {
                "device": report.environment.device,
                "toolchain": report.environment.toolchain,
                "protocol": PROTOCOL_VERSION,
            }
            record = _begun(
                out / f"{name}.json", {**machine, "evaluations": plan.evaluations}, join=join
            )
            there = {(r["seed"], r["task"], r["arm"]) for r in record["runs"]}
            left = [s for s in plan.searches() if (s[0], s[1].name, s[2]) not in there]
            began = time.monotonic()
            for number, (seed, task, arm) in enumerate(left, 1):
                home = work / "home"
                shutil.rmtree(home, ignore_errors=True)
                if arm in WITH_SESSIONS:
                    shutil.copytree(await learn(work, executor, plan, seed), home)
                found = await search(
                    home, executor, work / "tasks", task, seed, arm, plan.evaluations
                )
                record["runs"].append(found)
                record["figures"] = figures(record["runs"], plan.evaluations)
                recording.write(out, name, record)
                rest = (time.monotonic() - began) / number * (len(left) - number)
                print(
                    f"{arm}, {task.name}, seed {seed}: best "
                    f"{max(found['fitness'], default=0.0):.3g} of {len(found['fitness'])}; "
                    f"{len(left) - number} searches left, about {rest / 60:.0f} min",
                    flush=True,
                )
        finally:
            await executor.end()
    return record


def _begun(path: Path, conditions: dict[str, Any], *, join: bool) -> dict[str, Any]:
    if not join or not path.is_file():
        return {"conditions": conditions, "runs": [], "figures": {}}
    record: dict[str, Any] = json.loads(path.read_text())
    if record["conditions"] != conditions:
        raise SystemExit(
            f"{path} was recorded under other conditions ({record['conditions']}; here "
            f"{conditions}): run without --join to begin anew."
        )
    return record


def figures(runs: Sequence[dict[str, Any]], evaluations: int) -> dict[str, Any]:
    """By arm, over all, by family and by seed: the median of the evaluations to SHARE of the best
    known, the share of searches that reached it, and the first evaluation's part of it."""
    values = _values(runs)
    best = {task: _best(values, task) for task in dict.fromkeys(r["task"] for r in runs)}
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(r["arm"] for r in runs):
        own = [r for r in runs if r["arm"] == arm]
        found[arm] = _figures(own, values, best, evaluations)
        for part in ("family", "seed"):
            groups = {str(r[part]): [o for o in own if o[part] == r[part]] for r in own}
            found[arm][f"by_{part}"] = {
                name: _figures(group, values, best, evaluations) for name, group in groups.items()
            }
    if "empty" in found:
        for arm in found:
            found[arm]["of_empty"] = round(found[arm]["median"] / found["empty"]["median"], 3)
    return found


Values = dict[tuple[str, str], list[float]]


def _values(runs: Sequence[dict[str, Any]]) -> Values:
    """All measurements by task and kernel, one of each search: a kernel that came again in a search
    was not measured again."""
    found: Values = {}
    for r in runs:
        for kernel, fitness in dict(zip(r["kernels"], r["fitness"], strict=True)).items():
            found.setdefault((r["task"], kernel), []).append(fitness)
    return found


def _best(values: Values, task: str) -> float:
    """Of kernels that several searches measured, or of all where there is none."""
    own = [measured for (of, _), measured in values.items() if of == task]
    several = [measured for measured in own if len(measured) > 1]
    return max((statistics.median(measured) for measured in several or own), default=0.0)


def _figures(
    runs: Sequence[dict[str, Any]], values: Values, best: dict[str, float], evaluations: int
) -> dict[str, Any]:
    counts, first = [], []
    for r in runs:
        known = best[r["task"]]
        reached = [statistics.median(values[r["task"], kernel]) for kernel in r["kernels"]]
        counts.append(
            next((n for n, f in enumerate(reached, 1) if f >= SHARE * known > 0), evaluations + 1)
        )
        first.append(reached[0] / known if reached and known else 0.0)
    return {
        "searches": len(runs),
        "median": statistics.median(counts),
        "reached": round(sum(c <= evaluations for c in counts) / len(counts), 3),
        "first": round(statistics.median(first), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=0, help="default: 3, with --quick 1")
    parser.add_argument(
        "--evaluations", type=int, default=0, help="of a search; default: 10, with --quick 4"
    )
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    given = parser.parse_args()
    arms = tuple(given.arms.split(","))
    if unknown := set(arms) - set(ARMS):
        parser.error(f"--arms {', '.join(sorted(unknown))}: there are {', '.join(ARMS)}")
    tasks = QUICK if given.quick else FAMILIES
    plan = Plan(
        held_out=tuple(t for t in tasks if not t.learned),
        learned=tuple(t for t in tasks if t.learned),
        arms=arms,
        seeds=given.seeds or (1 if given.quick else 3),
        evaluations=given.evaluations or (4 if given.quick else 10),
    )
    record = asyncio.run(
        run(plan, given.out, "learning_quick" if given.quick else "learning", join=given.join)
    )
    for arm, figure in record["figures"].items():
        print(f"{arm}: { ({k: v for k, v in figure.items() if not k.startswith('by_')}) }")


if __name__ == "__main__":
    main()
