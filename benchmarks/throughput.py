"""Screens a stream of small candidates (build and verify), and the same stream by an evaluator that
starts a process for each.

    python benchmarks/throughput.py [--out benchmarks/results] [--target cpu] [--count 40]

The other one does what such evaluators do: a fresh Python imports the framework, loads reference
and candidate, compiles, and compares three results. It takes turns with ours, candidate by
candidate. It comes twice: with the compiler call that ours uses, and on a CPU, for a few candidates
only and where ninja is installed, with `torch.utils.cpp_extension`. Writes throughput_TARGET.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recording

from harness.types import Candidate, EvaluationRequest, Stage

DATA = recording.ROOT / "tests" / "data" / "candidates"
KERNELS = {"cpu": ("cpp", "correct.py"), "cuda": ("triton", "triton_rows.py")}
EXTENSIONS = 3
FRESH = """
import sys, types
import torch
def load(path, name):
    module = types.ModuleType(name)
    exec(compile(open(path).read(), path, "exec"), module.__dict__)
    return module
task, candidate, device = sys.argv[1:]
torch.set_num_threads(1)
problem = load(task, "problem")
solution = load(candidate, "solution")
reference = problem.Model(*problem.get_init_inputs()).to(device)
own = solution.ModelNew(*problem.get_init_inputs()).to(device)
own.load_state_dict(reference.state_dict())
with torch.no_grad():
    for case in (getattr(problem, "CASES", None) or {"": {}}).values():
        for seed in range(3):
            torch.manual_seed(seed)
            inputs = [x.to(device) for x in problem.get_inputs(**case)]
            assert torch.allclose(reference(*inputs), own(*inputs), rtol=1e-2, atol=1e-2)
"""
EXTENSION = """
from torch.utils.cpp_extension import load_inline
import sys
load_inline("candidate_" + sys.argv[1], open(sys.argv[2]).read(), functions=["rows"], build_directory=sys.argv[3])
"""  # noqa: E501
EXTENSION_SOURCE = """
#include <cmath>
#include <torch/extension.h>
torch::Tensor rows(torch::Tensor x, torch::Tensor w) {{
  auto y = torch::empty_like(x);
  const int64_t n = x.size(0), m = x.size(1);
  const float *a = x.data_ptr<float>(), *b = w.data_ptr<float>(); float* c = y.data_ptr<float>();
  for (int64_t i = 0; i < n; i++) {{
    float s = {number}e-30f;
    for (int64_t j = 0; j < m; j++) s += a[i * m + j];
    for (int64_t j = 0; j < m; j++) c[i * m + j] = std::tanh(a[i * m + j]) * b[j] + s;
  }}
  return y;
}}
"""


async def run(target: str, count: int) -> dict[str, object]:
    record: dict[str, object] = {"target": target, "count": count}
    language, name = KERNELS[target]
    text, task_path = (DATA / name).read_text(), DATA / "task.py"
    ours: list[float] = []
    theirs: list[float] = []
    extension: list[float] = []
    stages: dict[Stage, list[float]] = {}
    async with recording.judge(record) as executor:
        task = await executor.open_task(task_path.read_text(), str(task_path), target, timed=False)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(count + 1):  # the first of each warms caches up and does not count
                variant = _variant(text, number)
                began = time.monotonic()
                request = EvaluationRequest(Candidate(variant, language), "check", "verify")
                found = await executor.evaluate(task, request, target)
                ours.append(time.monotonic() - began)
                if found.status != "correct":
                    raise SystemExit(f"{found.status}: {found.message}")
                for stage in found.stages:
                    stages.setdefault(stage.stage, []).append(stage.seconds)
                file = Path(folder) / f"candidate{number}.py"
                file.write_text(_variant(text, number + 100_000))
                began = time.monotonic()
                _fresh(FRESH, task_path, file, target, cache=folder)
                theirs.append(time.monotonic() - began)
            if target == "cpu" and shutil.which("ninja"):
                extension = [_extension(Path(folder), number) for number in range(EXTENSIONS)]
    record["ours_s"], record["fresh_process_s"], record["extension_s"] = (
        ours[1:],
        theirs[1:],
        extension,
    )
    record["stages_s"] = {stage: statistics.median(values[1:]) for stage, values in stages.items()}
    record["summary"] = {
        "ours_per_minute": 60 / statistics.median(ours[1:]),
        "fresh_process_per_minute": 60 / statistics.median(theirs[1:]),
        "ratio": statistics.median([b / a for a, b in zip(ours[1:], theirs[1:], strict=True)]),
        "extension_per_minute": 60 / statistics.median(extension) if extension else None,
    }
    return record


def _variant(text: str, number: int) -> str:
    """The same kernel with a text of its own in the compiled part, so that nothing is found in a
    cache."""
    if "@triton.jit\n" in text:
        head, at, tail = text.partition("@triton.jit\n")
        body = tail.split(":\n", 1)
        return f"{head}{at}{body[0]}:\n    tl.static_assert({number} >= 0)\n{body[1]}"
    return text.replace("#include <cmath>", f"#include <cmath>\n#define VARIANT {number}", 1)


def _fresh(code: str, *arguments: object, cache: str) -> None:
    environment = {
        **os.environ,
        "KEVOLVE_NATIVE_CACHE": cache,
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "PYTHONPATH": str(recording.ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def _extension(folder: Path, number: int) -> float:
    source, build = folder / f"extension{number}.cpp", folder / f"build{number}"
    source.write_text(EXTENSION_SOURCE.format(number=number))
    build.mkdir()
    began = time.monotonic()
    _fresh(EXTENSION, number, source, build, cache=str(folder))
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    parser.add_argument("--target", choices=KERNELS, default="cpu")
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    if options.target == "cuda":
        recording.need_device()
    record = asyncio.run(run(options.target, options.count))
    print(record["summary"], record["stages_s"])
    recording.write(options.out, f"throughput_{options.target}", record)


if __name__ == "__main__":
    main()
