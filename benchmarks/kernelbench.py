"""Judges the problems of a checkout of KernelBench as they are: nothing is scaled, and nothing of
them is copied into this project.

    python benchmarks/kernelbench.py FOLDER [--target cuda] [--levels 1,2,3] [--resume FILE]
        [--limit-s 400]
    python benchmarks/kernelbench.py FOLDER --resume FILE --made        mutants are made
        beforehand, without a judge
    python benchmarks/kernelbench.py FOLDER --resume FILE --summary     what FILE says, as tables

FOLDER: the root of a checkout. Each problem's own code is its candidate, library calls allowed. It
ends as correct, as refused at opening with a reason, or as anything else, which is this evaluator's
fault and listed whole. --mutants N: N problems also with one transcription mistake each, made by
rules and shown to change what is computed. --timed N: N problems also timed, against their own code
run eagerly. --exploits N: N exploits of the corpus. --peer: KernelBench's own evaluation on the
problems that have a mutant, on their mutants and on the exploits (needs CUDA). --backendbench
FOLDER: BackendBench's evaluation on the same, from a checkout of it. Done things are
remembered in FILE, one JSON object a line: a sitting ends after --limit-s seconds and the next goes
on. --problem-s bounds one problem; what does not fit ends as "timeout". Needs torch, and triton for
CUDA. The exit code is 1 while anything is wrong that should not be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.problems import cheats, checkout, mutating, plan, summary  # noqa: E402
from benchmarks.problems.checkout import Problem  # noqa: E402
from benchmarks.problems.judged import Bench, evaluated, opened  # noqa: E402
from benchmarks.problems.peers import Peer  # noqa: E402
from benchmarks.problems.records import PEER_PARTS, Record, Records  # noqa: E402
from harness.types import Policy, Task  # noqa: E402
from tests.exploits.entries import Entry, task_path  # noqa: E402

ENDING_S = 10.0  # left free at the end of a sitting: a judge that is stopped takes some seconds


class Sitting:
    """Works on what is missing until its time is over."""

    def __init__(
        self, options: argparse.Namespace, problems: Sequence[Problem], records: Records
    ) -> None:
        self._folder, self._problem_s = options.folder, options.problem_s
        self._ends = time.monotonic() + options.limit_s
        self._problems = {p.name: p for p in problems}
        self._exploits = {e.name: e for e in cheats.exploits(options.target, options.exploits)}
        self._records = records
        peers = {"kernelbench": options.folder} if options.peer else {}
        if options.backendbench is not None:
            peers["backendbench"] = options.backendbench
        self._wanted = plan.Wanted(
            options.mutants, options.timed, options.exploits, tuple(peers), not options.chosen
        )
        self._bench = Bench(options.target)
        self._peers = {name: Peer(name, folder) for name, folder in peers.items()}
        self._tasks: dict[str, Task] = {}  # of exploits, as the present judge opened them
        self._first = True

    async def run(self) -> None:
        try:
            while (work := self._next()) is not None and self._left() > 0:
                began = time.monotonic()
                done = await self._do(work)
                print(
                    f"{work.subject:36s} {'; '.join(map(_brief, done)) or 'time is over'} "
                    f"({time.monotonic() - began:.1f} s)",
                    flush=True,
                )
                if not done:
                    return
                self._first = False
        finally:
            await self._bench.stop()
            for peer in self._peers.values():
                await peer.stop()

    async def make(self) -> None:
        """Mutants alone."""
        while self._left() > 0:
            names = plan.mutated(list(self._problems.values()), self._records, self._wanted.mutants)
            name = next((n for n in names if self._records.get("made", n) is None), None)
            if name is None:
                return
            self._keep([await mutating.made(self._problems[name])], name)
            print(name, _brief(self._records.of("made")[-1]), flush=True)

    def missing(self) -> int:
        found = plan.missing(
            list(self._problems.values()), list(self._exploits), self._records, self._wanted
        )
        return sum(len(work.parts) for work in found)

    def _next(self) -> plan.Work | None:
        return plan.next_work(
            list(self._problems.values()), list(self._exploits), self._records, self._wanted
        )

    def _left(self) -> float:
        return self._ends - time.monotonic() - ENDING_S

    def _limit(self) -> float:
        return max(1.0, min(self._problem_s, self._left()))

    async def _do(self, work: plan.Work) -> list[Record]:
        """What was recorded; nothing where the sitting's end, and not the problem, cut it short."""
        if work.parts[0] in PEER_PARTS:
            await self._bench.stop()  # the device is the other's alone
            return self._keep(await self._before_peer(work), work.subject)
        if work.parts == ("exploit",):
            return self._keep([await self._exploit(self._exploits[work.subject])], work.subject)
        problem, kept = self._problems[work.subject], []
        if "made" in work.parts:
            kept += self._keep([await mutating.made(problem)], work.subject)
        if {"identity", "mutant"} & {*work.parts}:
            kept += self._keep(await self._judged(problem, work.parts), work.subject)
        if "timed" in work.parts and self._right(problem):
            kept += self._keep([await self._timed(problem)], work.subject)
        return kept

    def _keep(self, records: list[Record], subject: str) -> list[Record]:
        """Into the file, but for what ended with the sitting: then the next one does it, unless it
        had a sitting for itself."""
        cut = self._left() < 1 and not self._first
        kept = [
            replace(r, subject=subject) for r in records if not (r.outcome == "timeout" and cut)
        ]
        for record in kept:
            self._records.add(record)
        return kept

    async def _judged(self, problem: Problem, parts: Sequence[str]) -> list[Record]:
        task, opening = await opened(self._bench, problem.source, str(problem.path), self._limit())
        if task is None:
            await self._after(opening)
            return [replace(opening, part="identity" if "identity" in parts else "mutant")]
        done: list[Record] = []
        if "identity" in parts:
            found = await evaluated(
                self._bench, task, checkout.candidate(problem.source), self._limit()
            )
            done.append(
                replace(found, part="identity", figures={**opening.figures, **found.figures})
            )
        if (
            "mutant" in parts
            and self._has_mutant(problem)
            and not any(r.outcome in ("unavailable", "timeout") for r in done)
        ):
            text = mutating.again(problem, self._mutant(problem)).source
            found = await evaluated(self._bench, task, checkout.candidate(text), self._limit())
            done.append(
                replace(
                    found,
                    part="mutant",
                    figures={"open_s": opening.figures["open_s"], **found.figures},
                )
            )
        for record in done:
            await self._after(record)
        return done

    async def _timed(self, problem: Problem) -> Record:
        task, opening = await opened(
            self._bench, problem.eager_only, str(problem.path), self._limit(), timed=True
        )
        found, own = opening, checkout.candidate(problem.source)
        if task is not None:
            found = await evaluated(
                self._bench, task, own, self._limit(), through="diagnose", purpose="confirm"
            )
        await self._after(found)
        return replace(found, part="timed", figures={**opening.figures, **found.figures})

    async def _exploit(self, entry: Entry) -> Record:
        task = self._tasks.get(entry.task)
        if task is None:
            task, opening = await opened(
                self._bench,
                cheats.task(entry),
                str(task_path(entry.task)),
                self._limit(),
                timed=True,
            )
            if task is None:
                await self._after(opening)
                return replace(opening, part="exploit")
            self._tasks[entry.task] = task
        policy = Policy(library_calls=entry.policy)  # type: ignore[arg-type]
        found = await evaluated(
            self._bench,
            task,
            entry.source,
            self._limit(),
            through="diagnose",
            purpose="search",
            policy=policy,
        )
        await self._after(found)
        return replace(found, part="exploit")

    async def _before_peer(self, work: plan.Work) -> list[Record]:
        done = []
        name = work.parts[0].split()[0]
        for part in work.parts:
            if part.endswith(" exploit"):
                entry = self._exploits[work.subject]
                source, text, how = (
                    cheats.task(entry),
                    cheats.with_parameters(entry),
                    {"triton": "import triton" in entry.source, "timed": True},
                )
            else:
                problem, how = self._problems[work.subject], {}
                source = problem.source
                text = checkout.candidate(
                    source
                    if part.endswith(" identity")
                    else mutating.again(problem, self._mutant(problem)).source
                )
            answer = await self._peers[name].judge(source, text, self._limit(), **how)
            done.append(Record(part, work.subject, **answer))
        # an exploit may have changed it; a problem's memory is given back
        await self._peers[name].stop()
        return done

    async def _after(self, record: Record) -> None:
        """A judge that was in trouble is not asked again."""
        if record.outcome in ("unavailable", "timeout"):
            self._tasks.clear()
            await self._bench.stop()

    def _right(self, problem: Problem) -> bool:
        found = self._records.get("identity", problem.name)
        return found is None or found.outcome == "correct"

    def _has_mutant(self, problem: Problem) -> bool:
        found = self._records.get("made", problem.name)
        return found is not None and found.outcome == "made"

    def _mutant(self, problem: Problem) -> Record:
        found = self._records.get("made", problem.name)
        assert found is not None
        return found


def _brief(record: Record) -> str:
    seconds = [
        f"{name.removesuffix('_s')} {record.figures[name]} s"
        for name in ("open_s", "check_s")
        if name in record.figures
    ]
    said = (
        record.message
        or " ".join(str(record.figures.get(name, "")) for name in ("rule", "difference")).strip()
    )
    return f"{record.part} {record.outcome} {' '.join(seconds)} {said[:160]}".rstrip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", help="the root of a checkout of KernelBench"
    )
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--levels", default="1,2,3", help="separated by commas")
    parser.add_argument("--problems", default="", help="these alone, as 1/19,2/3")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="records, read and appended to; without it nothing is remembered",
    )
    parser.add_argument("--limit-s", type=float, default=3600.0, help="of the whole sitting")
    parser.add_argument(
        "--problem-s",
        type=float,
        default=120.0,
        help="for opening, and again for each evaluation, of one problem",
    )
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--timed", type=int, default=0)
    parser.add_argument("--exploits", type=int, default=0)
    parser.add_argument("--peer", action="store_true", help="KernelBench's own evaluation, too")
    parser.add_argument(
        "--backendbench", type=Path, metavar="FOLDER", help="BackendBench's evaluation, too"
    )
    parser.add_argument(
        "--chosen",
        action="store_true",
        help="leave out identities of problems that no mutant was chosen for",
    )
    parser.add_argument(
        "--again",
        default="",
        help="outcomes that are done again, separated by commas: timeout,unavailable",
    )
    parser.add_argument("--made", action="store_true", help="make mutants and nothing else")
    parser.add_argument("--summary", action="store_true", help="print what FILE says and end")
    return parser.parse_args()


def main() -> int:
    options = _options()
    if options.folder is None:
        print("no checkout of KernelBench was named: nothing to record")
        return 0
    records = Records(options.resume)
    try:
        problems = checkout.problems(
            options.folder, [int(level) for level in options.levels.split(",")]
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.problems:
        wanted = set(options.problems.split(","))
        problems = [p for p in problems if p.name in wanted]
    if not options.summary:
        records.forget(filter(None, options.again.split(",")))
        sitting = Sitting(options, problems, records)
        asyncio.run(sitting.make() if options.made else sitting.run())
        print(
            f"{sitting.missing()} parts are left"
            + (f"; go on with --resume {options.resume}" if options.resume else "")
        )
    print(summary.text(records))
    return int(bool(summary.faults(records)))


if __name__ == "__main__":
    raise SystemExit(main())
