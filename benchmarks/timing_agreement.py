"""Does the evaluator call equal kernels equal, and a known small slow-down slow?

    python benchmarks/timing_agreement.py [--target cpu|cuda] [--rounds 40] [--kind same|slower]
        [--out benchmarks/results]
    python benchmarks/timing_agreement.py --join RECORD...    one record of several: of both kinds,
                                                              or of equal GPUs side by side

A/A: a kernel against itself. The task brings it as a baseline, the candidate is the same text;
every process, burst and interval is that of any confirmation. A/B: the candidate lengthens its
chain by steps that change nothing, by so many that a whole call takes a known share longer (5 % on
a CPU, 3 % on a GPU). How many is measured first: a candidate with twice the steps tells what share
of a call they are. Five sizes from some microseconds to some milliseconds are cases of one task, so
a round gives five comparisons of each kind. Writes timing_agreement_TARGET.json: verdicts, the
range of the measured ratios, and how many pairs of processes each verdict took. Without --target:
cuda where there is one, after cpu.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import recording

from harness.judge.device.machine import Machine
from harness.judge.evaluation import pipeline
from harness.judge.evaluation.progress import Holdings
from harness.judge.evaluation.verification import verify
from harness.judge.figures.block import Block
from harness.judge.stage_context import StageContext, begin
from harness.judge.tasks.opening import open_task
from harness.judge.timing import paired
from harness.judge.timing.measuring import time_candidate
from harness.targets import FAMILIES
from harness.types import Candidate, EvaluationRequest, Policy, Target, to_json

KINDS = ("same", "slower")
SLOWER = {"cpu": 0.05, "cuda": 0.03}  # A/B: what a call shall take longer
# elements; steps of the chain on each, no two alike; passes of the reference, so many that the
# chain is the strongest baseline
SIZES = {
    "cpu": {"micro": (64, 127, 12), "small": (512, 512, 30), "middle": (4096, 640, 80),
            "large": (65536, 513, 90), "huge": (524288, 321, 60)},
    "cuda": {"micro": (1 << 15, 192, 6), "small": (1 << 18, 2048, 20),
             "middle": (1 << 20, 4096, 100), "large": (1 << 21, 12288, 300),
             "huge": (1 << 22, 28672, 600)},
}  # fmt: skip
TASK = '''
"""v = v * one + zero, over and over: a chain whose length is known, in a kernel that is given as a baseline, too."""

import torch
import torch.nn as nn

CASES = CASES_HERE
KERNEL_HERE


class Model(nn.Module):
    def __init__(self, steps, passes):
        super().__init__()
        self.passes = passes

    @torch.compiler.disable
    def forward(self, x):
        v = x.clone()
        for _ in range(self.passes):
            v.mul_(1.0).add_(0.0)
        return v * 2.0 + 1.0


BASELINES = {"the kernel itself": ModelNew}


def get_inputs(n=64, steps=32, passes=1):
    return [torch.randn(n)]


def get_init_inputs(steps=32, passes=1):
    return [steps, passes]
'''  # noqa: E501
CPP = '''
import torch
import torch.nn as nn
from harness.native import load_cpp

EXTRA = {}
_lib = load_cpp(r"""
#include <cstdint>
extern "C" void chain(const float* x, float* y, int64_t n, int64_t steps, float one, float zero) {
  for (int64_t i = 0; i < n; i += 64) {
    float v[64];
    for (int l = 0; l < 64; l++) v[l] = x[i + l];
    for (int64_t k = 0; k < steps; k++) for (int l = 0; l < 64; l++) v[l] = v[l] * one + zero;
    for (int l = 0; l < 64; l++) y[i + l] = v[l] * 2.0f + 1.0f;
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, steps, passes):
        super().__init__()
        self.steps, self.extra = steps, EXTRA.get(steps, 0)

    def forward(self, x):
        y = torch.empty_like(x)
        _lib.chain(x, y, x.numel(), self.steps + self.extra, 1.0, 0.0)
        return y
'''
TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = {}


@triton.jit
def chain(x, y, n, steps, one, zero, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    for _ in range(steps):
        v = v * one + zero
    tl.store(y + at, v * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, steps, passes):
        super().__init__()
        self.steps, self.extra = steps, EXTRA.get(steps, 0)

    def forward(self, x):
        y = torch.empty_like(x)
        chain[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), self.steps + self.extra, 1.0, 0.0, BLOCK=1024)
        return y
"""  # noqa: E501


class _Prepared:
    """A candidate that is built and right."""

    def __init__(self, context: StageContext) -> None:
        self.holdings = Holdings(context)
        built = pipeline.build(context)
        self.holdings.hold(built.worker)
        self.verified = verify(context, built)
        assert self.verified.failure is None, self.verified.failure
        self.context = self.holdings.hand_on()


def measure(target: str, rounds: int, out: Path, kinds: Sequence[str]) -> dict[str, Any]:
    """The whole record for one target, written after each round."""
    family = FAMILIES[target]
    text, language = (CPP, "cpp") if target == "cpu" else (TRITON, "triton")
    cases = {
        name: {"n": n, "steps": steps, "passes": passes}
        for name, (n, steps, passes) in SIZES[target].items()
    }
    source = TASK.replace("CASES_HERE", repr(cases)).replace("KERNEL_HERE", text)
    # the other baselines are slower, and would be timed as well
    paired.contenders = lambda case, *, every: ["the kernel itself"]
    with tempfile.TemporaryDirectory() as cache:
        machine = Machine(Path(cache))
        opened, task = open_task(
            machine, source, "", lambda *_: None, None, family=family, timed=True
        )
        record: dict[str, Any] = {"target": target, "longer": SLOWER[target]}
        record["screened_us"] = {c.name: c.baselines_us for c in task.cases}
        assert all(
            min(c.baselines_us, key=c.baselines_us.__getitem__) == "the kernel itself"
            for c in task.cases
        ), task.notes
        place = machine.place(family, Target.parse(target), language)
        record["environment"] = to_json(place.environment)

        def prepared(extra: dict[int, int]) -> _Prepared:
            """Of a candidate with so many steps more, by the steps that a case has."""
            candidate = Candidate(text.replace("EXTRA = {}", f"EXTRA = {extra}"), language)
            request = EvaluationRequest(candidate, "export", "time", Policy(library_calls="allow"))
            return _Prepared(
                begin(machine, place, opened, task, request, machine.level, lambda *_: None, None)
            )

        runs, found, began = {}, {}, time.monotonic()
        # what one pair of processes alone says: a search leaves some candidates at that
        single: dict[str, list[float]] = {}
        for kind in kinds:
            if kind == "slower":
                record["extra_steps"] = _calibrated(prepared, target)
            run = runs[kind] = prepared(record["extra_steps"] if kind == "slower" else {})
            found[kind] = {c.name: list[tuple[float, str, int]]() for c in task.cases}
            single[kind] = []
        for number in range(rounds):
            for kind, run in runs.items():
                timed = time_candidate(run.context, run.verified)
                for name, result in timed.results.items():
                    found[kind][name].append(
                        (
                            round(result.speedup or 0.0, 5),
                            str(result.verdict),
                            len(timed.times[name].blocks),
                        )
                    )
                single[kind] += [
                    _ratio(block) for times in timed.times.values() for block in times.blocks
                ]
                record[kind] = {
                    **_summary(found[kind], timed.results),
                    "one_process": _range(single[kind]),
                }
            record |= {"rounds": number + 1, "seconds": time.monotonic() - began}
            recording.write(out, f"timing_agreement_{target}", record)
        for run in runs.values():
            run.holdings.close()
        opened.close()
        machine.close()
    return record


def _calibrated(prepared: Callable[[dict[int, int]], _Prepared], target: str) -> dict[int, int]:
    """Steps of a case -> the steps more that make a call so much longer. By the evaluator, since a
    call after a sleep takes longer than one of many: a factor of two is told from the few per cent
    that its figures are off by."""
    twice = prepared({steps: steps for _, steps, _ in SIZES[target].values()})
    timed = time_candidate(twice.context, twice.verified)
    twice.holdings.close()
    found = {}
    for name, (_, steps, _) in SIZES[target].items():
        speedup = timed.results[name].speedup
        assert speedup is not None
        found[steps] = max(1, round(steps * SLOWER[target] / (1 / speedup - 1)))
    return found


def _summary(found: dict[str, list[tuple[float, str, int]]], results: Any) -> dict[str, Any]:
    """By case and over all: verdicts, and the range of the ratio that holds 95 % of the
    comparisons."""
    cases = {
        name: {"latency_us": results[name].latency_us, "found": values}
        for name, values in found.items()
    }
    return _figured(cases)


def _figured(cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """found: of each comparison the ratio, the verdict, and how many pairs of processes it took."""
    by_case = {name: {**_figures(case["found"]), **case} for name, case in cases.items()}
    return {
        "all": _figures([v for case in cases.values() for v in case["found"]]),
        "cases": by_case,
    }


def joined(records: list[dict[str, Any]]) -> dict[str, Any]:
    """One record of several of one model, with the environments of all."""
    record = {
        **records[0],
        "environment": [r["environment"] for r in records],
        "extra_steps": [r["extra_steps"] for r in records if "extra_steps" in r],
    }
    record |= {"rounds": [r["rounds"] for r in records], "seconds": [r["seconds"] for r in records]}
    for kind in KINDS:
        parts = [r[kind]["cases"] for r in records if kind in r]
        record[kind] = _figured(
            {
                name: {
                    "latency_us": case["latency_us"],
                    "found": [v for part in parts for v in part[name]["found"]],
                }
                for name, case in parts[0].items()
            }
        )
    return record


def _ratio(block: Block) -> float:
    return statistics.median([b / c for b, c in block.pairs["the kernel itself"]])


def _range(values: list[float]) -> dict[str, Any]:
    """The range that holds 95 % of them, and the ends."""
    ratios = sorted(values)
    low, high = (
        ratios[int(0.025 * len(ratios))],
        ratios[min(len(ratios) - 1, int(0.975 * len(ratios)))],
    )
    return {"count": len(ratios), "range_95": [low, high], "ends": [ratios[0], ratios[-1]]}


def _figures(values: list[tuple[float, str, int]]) -> dict[str, Any]:
    ratios = sorted(r for r, _, _ in values)
    return {
        "comparisons": len(values),
        "verdicts": dict(Counter(v for _, v, _ in values)),
        "processes": dict(sorted(Counter(n for _, _, n in values).items())),
        "median": statistics.median(ratios),
        "range_95": _range(ratios)["range_95"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--join", type=Path, nargs="+")
    given = parser.parse_args()
    if given.join:
        together = joined([json.loads(path.read_text()) for path in given.join])
        recording.write(given.out, f"timing_agreement_{together['target']}", together)
        raise SystemExit
    recording.as_judge()
    targets = (
        [given.target]
        if given.target
        else ["cpu", *(["cuda"] if shutil.which("nvidia-smi") else [])]
    )
    for name in targets:
        chosen = [given.kind] if given.kind else KINDS
        seen = measure(name, given.rounds, given.out, chosen)
        for kind in chosen:
            print(f"{name}, {kind}: {seen[kind]['all']}", file=sys.stderr)
