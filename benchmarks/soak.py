"""Judges 500 candidates in a row, good ones and every kind of bad one, and records that nothing
adds up.

    python benchmarks/soak.py [--out benchmarks/results] [--count 500]

Each candidate must get its status, whatever came before it. After every 25 the judge's memory and
descriptors are read, and the processes that it has. Needs a C++ compiler; writes soak.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from pathlib import Path

import recording

from harness.types import Candidate, EvaluationRequest
from tests.harness.judge.evaluation.test_verdicts import CASES

DATA = recording.ROOT / "tests" / "data" / "candidates"
EVERY = 25
GOOD_SHARE = 0.5
# each takes as long as its deadline: once in a while is enough
SLOW = ("hangs", "prints gigabytes")


async def run(count: int, out: Path) -> dict[str, object]:
    """The record, written after every reading."""
    record: dict[str, object] = {"count": 0}
    correct = (DATA / "correct.py").read_text()
    rng = random.Random(1)
    quick = [name for name in CASES if name not in SLOW]
    wrong: list[str] = []
    readings: list[dict[str, float]] = []
    seconds: dict[str, list[float]] = {}
    async with recording.judge(record) as executor:
        task = await executor.open_task(
            (DATA / "task.py").read_text(), str(DATA / "task.py"), "cpu", timed=False
        )
        for number in range(count):
            slow = SLOW[number // 100 % len(SLOW)] if number % 100 == 50 else ""
            name = slow or ("correct" if rng.random() < GOOD_SHARE else rng.choice(quick))
            status, old, new = (
                (CASES[name][0], *CASES[name][2:]) if name in CASES else ("correct", "", "")
            )
            text = f"# {number}\n" + correct.replace(old, new, 1)
            began = time.monotonic()
            found = await executor.evaluate(
                task, EvaluationRequest(Candidate(text, "cpp"), "check", "verify"), "cpu"
            )
            seconds.setdefault(status, []).append(time.monotonic() - began)
            if found.status != status:
                wrong.append(
                    f"{number}, {name}: {found.status} instead of {status}: {found.message}"
                )
            if number % EVERY == EVERY - 1:
                readings.append(_reading(number + 1))
                print(readings[-1], flush=True)
                record |= {
                    "count": number + 1,
                    "wrong": wrong,
                    "readings": readings,
                    "growth": _growth(readings),
                }
                record["seconds"] = {
                    status: {"count": len(s), "median": statistics.median(s)}
                    for status, s in seconds.items()
                }
                recording.write(out, "soak", record)
    record["left_over"] = len(_below(os.getpid()))
    return record


def _growth(readings: list[dict[str, float]]) -> dict[str, float]:
    """Of the later half's mean over the earlier's; the first reading starts the servers."""
    half = (len(readings) + 1) // 2
    earlier, later = readings[1:half] or readings[:half], readings[half:] or readings
    keys = ("judge_mib", "judge_descriptors", "processes", "descriptors")
    return {
        key: statistics.fmean(r[key] for r in later) - statistics.fmean(r[key] for r in earlier)
        for key in keys
    }


def _reading(number: int) -> dict[str, float]:
    below = _below(os.getpid())
    judge = below[0]
    status = Path(f"/proc/{judge}/status").read_text()
    resident = next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")
    )
    return {
        "after": number,
        "judge_mib": resident / 1024,
        "judge_descriptors": len(os.listdir(f"/proc/{judge}/fd")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": len(below),
    }


def _below(pid: int) -> list[int]:
    """Process ids below one, nearest first."""
    found, new = [], [pid]
    while new:
        new = [
            int(c)
            for p in new
            for t in Path(f"/proc/{p}/task").glob("*/children")
            for c in t.read_text().split()
        ]
        found += new
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--count", type=int, default=500)
    options = parser.parse_args()
    record = asyncio.run(run(options.count, options.out))
    print({key: record[key] for key in ("wrong", "growth", "left_over", "seconds")})
    recording.write(options.out, "soak", record)
    if record["wrong"] or record["left_over"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
