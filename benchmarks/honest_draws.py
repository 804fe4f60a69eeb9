"""How often would an honest kernel be called wrong by chance?

    python benchmarks/honest_draws.py [--out benchmarks/results] [--only names] [--rounds 12]
    [--seconds 60]

Every honest entry of the corpus that runs on a CPU is compared on fresh draws of all input families
and states of parameters that its task accepts, as an evaluation compares checking sets, but in one
process: an evaluation sees one draw of each, and what goes wrong in one of a hundred would show up
as a search that cannot be repeated. An entry ends early after --seconds. Writes honest_draws.json;
exit code 1 where one was called wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import recording
from oracle_mutations import outputs_of

from harness.judge.correctness import oracle, tolerance
from harness.judge.device.machine import Machine
from harness.judge.exchange.case_pool import CasePool
from harness.judge.exchange.input_sets import InputSet
from harness.judge.tasks.drawer import Drawer
from harness.judge.tasks.opening import open_task
from harness.types import to_json
from harness.workers import modules
from tests.exploits.entries import entries, task_path


def compare_draws(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Compare one entry's outputs. Returns how many rounds and outputs there were, and what was
    wrong."""
    import torch

    torch.set_num_threads(1)
    entry = next(each for each in entries("honest") if each.name == name)
    path = task_path(entry.task)
    found: dict[str, Any] = {"entry": name, "task": entry.task, "outputs": 0, "wrong": []}
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(Path(scratch))
        opened, task = open_task(
            machine, path.read_text(), str(path), lambda *_: None, None, timed=False
        )
        module = modules.load(entry.source, "honest", f"{name}.py")
        end, done = time.monotonic() + seconds, 0
        while done < rounds and time.monotonic() < end:
            for case in task.cases:
                pool = opened.drawer.describe(case.name)
                opened.drawer.draw_checking(pool)
                for state, held in pool.checking:
                    if held.family != "special":  # which fails no candidate
                        _compare(found, opened.drawer, pool, state, held, module)
                pool.close()
            done += 1
        opened.close()
        machine.close()
    return {**found, "rounds": done}


def _compare(
    found: dict[str, Any], drawer: Drawer, pool: CasePool, state: int, held: InputSet, module: Any
) -> None:
    def more(number: int) -> list[tolerance.FrameworkAllowance]:
        errors = drawer.framework_allowances(pool, state, held.family, held)
        return [each[number] for each in errors]

    for number, output in enumerate(outputs_of(module, pool, state, held)):
        expected, allowance = held.expectation(number, output), held.allowances[number]
        framework = held.framework[number]
        finding = oracle.compare(output, expected, allowance, framework)
        finding = oracle.compare_by_more_draws(
            finding, output, expected, allowance, framework, partial(more, number)
        )
        found["outputs"] += 1
        if finding.signal is not None:
            found["wrong"].append(
                {
                    "family": held.family,
                    "state": bool(state),
                    "output": number,
                    "signal": finding.signal,
                    "detail": finding.detail,
                    "error": finding.error,
                    "limit": finding.limit,
                }
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--only", default="", help="names of entries, separated by commas")
    parser.add_argument("--rounds", type=int, default=12, help="draws of every family")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one entry, at most")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    names = [each.name for each in entries("honest") if not only or each.name in only]
    began, records, failed = time.monotonic(), list[dict[str, Any]](), dict[str, str]()
    with (
        tempfile.TemporaryDirectory() as libraries,
        ProcessPoolExecutor(
            os.cpu_count(), mp_context=get_context("spawn"), max_tasks_per_child=1
        ) as workers,
    ):
        os.environ["KEVOLVE_NATIVE_CACHE"] = libraries
        tasks = {
            name: workers.submit(compare_draws, name, arguments.rounds, arguments.seconds)
            for name in names
        }
        for name, task in tasks.items():
            try:
                records.append(task.result())
            except Exception as error:  # one entry must not end the others
                failed[name] = f"{type(error).__name__}: {error}"[:400]
                print(f"{name}: {failed[name]}", flush=True)
                continue
            wrong = records[-1]["wrong"]
            print(
                f"{name}: {len(wrong)} wrong of {records[-1]['outputs']} outputs in "
                f"{records[-1]['rounds']} rounds {wrong[:2] or ''}",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as cache:
        machine = Machine(Path(cache))
        environment = to_json(machine.environment)
        machine.close()
    result = {
        "entries": len(records),
        "outputs": sum(each["outputs"] for each in records),
        "rounds": sum(each["rounds"] for each in records),
        "called_wrong": {each["entry"]: len(each["wrong"]) for each in records if each["wrong"]},
        "not_compared": failed,
        "seconds": time.monotonic() - began,
        "environment": environment,
        "records": records,
    }
    recording.write(arguments.out, "honest_draws", result)
    print(json.dumps({k: v for k, v in result.items() if k != "records"}, indent=1))
    return int(bool(result["called_wrong"]))


if __name__ == "__main__":
    sys.exit(main())
