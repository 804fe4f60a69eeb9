"""Does the oracle see transcription mistakes, and does it leave honest kernels alone?

    python benchmarks/oracle_mutations.py [--out benchmarks/results] [--kernels mean,softmax]
    [--draws 20]

Every mutant of `benchmarks/mutants` goes through the evaluator as any candidate (build and verify,
no timing); honest kernels and their rewritings (other order, other accumulators, other compiler
flags) are compared on many fresh draws of every input family. No mutant is excluded as equivalent:
one that passes has escaped. Writes oracle_mutations.json (recall, by kernel and by input family)
and oracle_calibration.json (share of the limit that honest rounding uses up). Needs a C++ compiler;
takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.mutants import KERNELS, Kernel  # noqa: E402
from harness.judge.correctness import oracle, tolerance  # noqa: E402
from harness.judge.device.machine import Machine  # noqa: E402
from harness.judge.exchange.case_pool import CasePool  # noqa: E402
from harness.judge.tasks.open_task import OpenTask  # noqa: E402
from harness.judge.tasks.opening import open_task  # noqa: E402
from harness.types import Candidate, Evaluation, EvaluationRequest, to_json  # noqa: E402
from harness.wire import buffers  # noqa: E402
from harness.workers import model_calls, modules  # noqa: E402
from kevolve_mcp.executors.local import LocalExecutor  # noqa: E402

FLAGS: dict[str, tuple[str, ...]] = {
    "as written": (),
    "fast math": ("-ffast-math",),
    "scalar, no fused products": ("-fno-tree-vectorize", "-ffp-contract=off"),
}
PREFIX, SUFFIX = "wrong share, ", " inputs"  # of the evidence that a wrong result carries


async def judge_mutants(kernels: list[Kernel], jobs: int) -> list[dict[str, Any]]:
    """One record for each kernel as written and each of its mutants; `jobs` judges at a time."""
    free = asyncio.Semaphore(jobs)

    async def judged(kernel: Kernel) -> list[dict[str, Any]]:
        async with free:
            return await _judge_one(kernel)

    return [record for records in await asyncio.gather(*map(judged, kernels)) for record in records]


async def _judge_one(kernel: Kernel) -> list[dict[str, Any]]:
    records = []
    with tempfile.TemporaryDirectory() as cache:
        executor = LocalExecutor(None, Path(cache))
        try:
            task = await executor.open_task(kernel.task, "", "cpu", timed=False)
            for name, replaced in [("", ("", "")), *kernel.mutants.items()]:
                request = EvaluationRequest(
                    Candidate(kernel.candidate(*replaced), "cpp"), "check", "verify"
                )
                found = await executor.evaluate(task, request, "cpu")
                records.append(
                    {"kernel": kernel.name, "kind": kernel.kind, "mutant": name, **_record(found)}
                )
                print(
                    f"{kernel.name:14} {name or 'as written':42} {found.status:10} "
                    f"{records[-1]['signal']}",
                    flush=True,
                )
        finally:
            await executor.close()
    return records


def _record(found: Evaluation) -> dict[str, Any]:
    shares = {
        key.removeprefix(PREFIX).removesuffix(SUFFIX): value
        for signal in found.signals
        for key, value in signal.evidence.items()
        if key.startswith(PREFIX)
    }
    return {
        "status": found.status,
        "signal": found.signals[0].name if found.signals else "",
        "message": found.message[:400] if found.status != "correct" else "",
        "families": {family: share > 0 for family, share in shares.items()},
    }


class Draws:
    """Fresh checking sets of one task's cases, drawn as the judge draws them."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self._open: OpenTask
        self._open, task = open_task(machine, kernel.task, "", lambda *_: None, None, timed=False)
        self._names = [c.name for c in task.cases if not c.held_out]

    def __iter__(self) -> Iterator[tuple[CasePool, list[Any]]]:
        for name in self._names:
            pool = self._open.drawer.describe(name)
            self._open.drawer.draw_checking(pool)
            yield pool, [(state, held) for state, held in pool.checking if held.family != "special"]
            pool.close()

    def close(self) -> None:
        self._open.close()


def outputs_of(module: Any, pool: CasePool, state: int, held: Any) -> list[Any]:
    """What a candidate's module computes in this process on one set, gradients included."""
    model = modules.construct(
        module, modules.CANDIDATE, buffers.read(pool.init_fd, pool.describe["init"]), 0
    )
    wanted = {k: (v[0], v[1]) for k, v in pool.describe["state"].items()}
    if wanted:
        values = list(buffers.read(pool.states[state], pool.describe["state_layout"]))
        modules.copy_state(modules.match_state(wanted, model), values)
    return model_calls.forward(model, pool.upstream)(buffers.read(held.file.fd, held.layout))


def honest_texts(kernel: Kernel) -> dict[str, str]:
    """Name -> text of every honest form: each flag set of the kernel as written, and each
    rewriting."""
    texts = {name: kernel.candidate(flags=flags) for name, flags in FLAGS.items()}
    return texts | {name: kernel.candidate(*replaced) for name, replaced in kernel.variants.items()}


def calibrate(name: str, count: int) -> list[dict[str, Any]]:
    """For every honest form, draw, family and output: the share of the limit that was used
    (norm-wise), and the verdict."""
    import torch

    torch.set_num_threads(1)
    kernel, found = _named(name), []
    texts = honest_texts(kernel)
    loaded = {
        form: modules.load(text, f"honest_{i}", f"{name}_{i}.py")
        for i, (form, text) in enumerate(texts.items())
    }
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(Path(scratch))
        draws = Draws(kernel, machine)
        # (case, family) -> limits that an earlier draw gave
        timed: dict[tuple[str, str], list[tolerance.Allowance]] = {}
        for _ in range(count):
            for pool, sets in draws:
                for (state, held), (form, module) in ((s, m) for s in sets for m in loaded.items()):
                    for number, output in enumerate(outputs_of(module, pool, state, held)):
                        wanted, limits = (
                            held.expectation(number, output),
                            {held.family: held.allowances[number]},
                        )
                        if (known := timed.get((pool.name, held.family))) is not None:
                            limits[f"{held.family}, timed"] = tolerance.for_timed_call(
                                known[number], wanted, tolerance.TypicalSize()
                            )
                        for family, allowed in limits.items():
                            finding = oracle.compare(
                                output, wanted, allowed, held.framework[number]
                            )
                            share = finding.error / finding.limit if finding.limit else 0.0
                            entry = {
                                "kernel": name,
                                "kind": kernel.kind,
                                "form": form,
                                "family": family,
                                "share": share,
                            }
                            found.append(
                                {**entry, "wrong": finding.signal, "detail": finding.detail}
                            )
                timed |= {
                    (pool.name, family): known for family, known in pool.family_allowances.items()
                }
        draws.close()
        machine.close()
    print(
        f"{name}: {sum(1 for e in found if e['wrong'])} false alarms in {len(found)} comparisons "
        "of honest forms",
        flush=True,
    )
    return found


def _named(name: str) -> Kernel:
    return next(k for k in KERNELS if k.name == name)


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Recall overall, by kernel, by kind of death and by the family that alone would have been
    enough."""
    mutants = [r for r in records if r["mutant"]]
    honest = [r for r in records if not r["mutant"]]
    caught = [r for r in mutants if r["status"] in ("incorrect", "crashed", "timed_out")]
    by_kernel, by_family, by_signal = defaultdict(list), defaultdict(list), defaultdict(int)
    for record in mutants:
        by_kernel[record["kernel"]].append(record in caught)
        by_signal[record["signal"] or "none"] += 1
        for family, wrong in record["families"].items():
            by_family[family].append(wrong)
    return {
        "mutants": len(mutants),
        "caught": len(caught),
        "recall": len(caught) / len(mutants) if mutants else None,
        "escaped": [f"{r['kernel']}: {r['mutant']}" for r in mutants if r not in caught],
        "honest_refused_by_the_evaluator": [
            r["kernel"] for r in honest if r["status"] != "correct"
        ],
        "by_kernel": {k: {"mutants": len(v), "caught": sum(v)} for k, v in by_kernel.items()},
        "by_family_alone": {
            k: {"tried_on": len(v), "caught": sum(v), "recall": sum(v) / len(v)}
            for k, v in sorted(by_family.items())
        },
        "by_signal": dict(sorted(by_signal.items(), key=lambda item: -item[1])),
    }


def calibration(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Median, 95 % and maximum of the used share of the limit, by kind of operator, by form and by
    family; false alarms."""

    def figures(shares: list[float]) -> dict[str, float]:
        ordered = sorted(shares)
        p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        return {
            "comparisons": len(ordered),
            "median": statistics.median(ordered),
            "p95": p95,
            "max": ordered[-1],
        }

    alarms = [e for e in found if e["wrong"]]
    grouped: dict[str, dict[str, Any]] = {}
    for group in ("kind", "form", "family"):
        shares: dict[str, list[float]] = defaultdict(list)
        for entry in found:
            shares[entry[group]].append(entry["share"])
        grouped[f"by_{group}"] = {key: figures(values) for key, values in shares.items()}
    return {
        "comparisons": len(found),
        "false_alarms": len(alarms),
        "alarms": alarms[:20],
        **grouped,
    }


def main() -> int:
    """Exit code 1 where more than 2 % of the mutants escaped or an honest kernel was refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument(
        "--kernels",
        default="",
        help="whose mutants, separated by commas; what is recorded of others stays",
    )
    parser.add_argument(
        "--draws", type=int, default=20, help="fresh draws of every family for each honest form"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="judges at a time")
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.kernels.split(",")))
    kernels = [k for k in KERNELS if not wanted or k.name in wanted]
    began = time.monotonic()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "oracle_mutations.json"
    records = _kept(path, {k.name for k in kernels}) + asyncio.run(
        judge_mutants(kernels, arguments.jobs)
    )
    with tempfile.TemporaryDirectory() as cache:
        machine = Machine(Path(cache))
        environment = to_json(machine.environment)
        machine.close()
    result = {
        **summary(records),
        "seconds": time.monotonic() - began,
        "environment": environment,
        "records": records,
    }
    _write(path, result)
    with tempfile.TemporaryDirectory() as libraries, _processes(arguments.jobs) as workers:
        os.environ["KEVOLVE_NATIVE_CACHE"] = libraries
        names = [k.name for k in KERNELS]
        found = [
            e
            for entries in workers.map(calibrate, names, [arguments.draws] * len(names))
            for e in entries
        ]
    honest = {**calibration(found), "environment": environment}
    _write(arguments.out / "oracle_calibration.json", honest)
    print(json.dumps({k: v for k, v in result.items() if k != "records"}, indent=1))
    print(json.dumps(honest, indent=1))
    missed = result["recall"] is not None and result["recall"] < 0.98
    return int(
        missed or bool(honest["false_alarms"]) or bool(result["honest_refused_by_the_evaluator"])
    )


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _kept(path: Path, again: set[str]) -> list[dict[str, Any]]:
    """The recorded mutants of kernels that were not judged again."""
    recorded = json.loads(path.read_text())["records"] if path.is_file() else []
    return [
        r for r in recorded if r["kernel"] not in again and r["kernel"] in {k.name for k in KERNELS}
    ]


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    sys.exit(main())
