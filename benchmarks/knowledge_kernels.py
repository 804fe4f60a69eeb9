"""Judges the kernels that knowledge holds: the candidate of every sample on its task, and every
skill's kernel, made from its template, on a task of its kind.

    python benchmarks/knowledge_kernels.py [--target cpu|cuda] [--only NAME ...] [--confirm]
    [--out benchmarks/results]

NAME is a sample's or a skill's, as "norm_gelu" or "triton_row_normalization". Needs what the target
needs. --confirm asks for the measurement that ends a session: fresh process pairs, every baseline
in turns, held-out cases. Writes knowledge_kernels_cpu.json or _cuda.json after every kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from dataclasses import dataclass
from pathlib import Path

import recording

from harness.types import Candidate, EvaluationRequest, Purpose, to_json
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.local import LocalExecutor
from kevolve_mcp.synthesis.skills import instantiate
from knowledge import Library, Page, Skill

EXAMPLES = recording.ROOT / "examples"
LANGUAGES = {"cpu": ("cpp",), "cuda": ("triton", "cuda")}
POINTWISE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, residual):
        return residual + 0.7 * F.gelu(x)


CASES = {"small": {"rows": 96, "cols": 320}, "large": {"rows": 4096, "cols": 4096}}


def get_inputs(rows=96, cols=320):
    return [torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return []
"""
# what a skill's kernel is tried on: an example, or a task's text
TASKS = {
    "row_normalization": "rmsnorm_residual",
    "softmax_cross_entropy": "softmax_cross_entropy",
    "fused_pointwise": POINTWISE,
}


FIGURES = (
    "name",
    "held_out",
    "speedup",
    "interval",
    "verdict",
    "latency_us",
    "baselines",
    "roofline_fraction",
)


@dataclass(frozen=True)
class Kernel:
    """One to judge. source: "" for one that is made from the skill's template once its task is
    open."""

    name: str
    language: str
    task: str
    path: str = ""
    source: str = ""
    skill: Skill | None = None


def kernels(library: Library, target: str, only: list[str]) -> list[Kernel]:
    """All of the target's languages, or those that were named. Raises SystemExit for a name that is
    none."""
    pages = [page for page in library.pages() if page.category == "sample"]
    found = [_sample(page) for page in pages]
    found += [_of_skill(skill, target) for skill in library.skills()]
    found = [kernel for kernel in found if kernel.language in LANGUAGES[target]]
    if unknown := set(only) - {kernel.name for kernel in found}:
        names = ", ".join(kernel.name for kernel in found)
        raise SystemExit(f"no kernel {min(unknown)!r} for {target}; there are: {names}")
    return [kernel for kernel in found if not only or kernel.name in only]


def _sample(page: Page) -> Kernel:
    blocks = dict(
        re.findall(r"^```python (\w+)\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE)
    )
    name = page.id.rpartition("/")[2]
    return Kernel(name, page.languages[0], blocks["task"], "", blocks["candidate"])


def _of_skill(skill: Skill, target: str) -> Kernel:
    name = skill.id.rpartition("/")[2]
    task = TASKS[name.removeprefix("triton_")]
    if task is POINTWISE:
        return Kernel(name, skill.page.languages[0], task, skill=skill)
    path = EXAMPLES / task / "task.py"
    if target != "cpu" and path.with_name("task_cuda.py").is_file():
        path = path.with_name("task_cuda.py")
    return Kernel(name, skill.page.languages[0], path.read_text(), str(path), skill=skill)


async def judged(
    executor: LocalExecutor, kernel: Kernel, target: str, purpose: Purpose
) -> dict[str, object]:
    """What becomes of one, for the record; shown in the terminal as well."""
    began = time.perf_counter()
    task = await executor.open_task(kernel.task, kernel.path, target)
    candidate = Candidate(kernel.source, kernel.language)
    if kernel.skill is not None:
        made = instantiate(kernel.skill, task, target, kernel.language)
        if not made.found:
            return {"status": "not made", "message": made.reason}
        candidate = made.found[0].candidate
    evaluation = await executor.evaluate(task, EvaluationRequest(candidate, purpose), target)
    recording.show(evaluation, kernel.name, time.perf_counter() - began)
    print(f"    F {evaluation.fitness}", flush=True)
    return {
        "status": evaluation.status,
        "message": evaluation.message,
        "fitness": evaluation.fitness,
        "device": evaluation.environment.device,
        "toolchain": evaluation.environment.toolchain,
        "cases": [{name: to_json(case)[name] for name in FIGURES} for case in evaluation.cases],
    }


async def run(out: Path, target: str, only: list[str], purpose: Purpose) -> int:
    """How many were not right."""
    record: dict[str, object] = {"machine": recording.machine(("torch", "triton"))}
    found: dict[str, object] = {}
    failures = 0
    async with recording.judge(record) as executor:
        record["purpose"], record["kernels"] = purpose, found
        for kernel in kernels(Library.builtin(), target, only):
            try:
                found[kernel.name] = entry = await judged(executor, kernel, target, purpose)
            except KEvolveError as error:
                found[kernel.name] = entry = {"status": "error", "message": str(error)}
            if entry["status"] != "correct":
                failures += 1
                print(f"{kernel.name}: {entry['status']}: {entry['message']}", flush=True)
            recording.write(out, f"knowledge_kernels_{target}", record)
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=LANGUAGES, default="cpu")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--out", type=Path, default=recording.RESULTS)
    options = parser.parse_args()
    purpose: Purpose = "confirm" if options.confirm else "search"
    raise SystemExit(
        1 if asyncio.run(run(options.out, options.target, options.only, purpose)) else 0
    )
