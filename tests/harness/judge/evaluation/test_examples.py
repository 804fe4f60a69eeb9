"""Every example's start is right on a small case: in Triton's interpreter, where it also compiles
for a GPU that is not here; in C++, where it is timed."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy
from harness.workers import task_file
from kevolve_mcp.executors.testing import OpenJudge

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
EXAMPLES = Path(__file__).parents[4] / "examples"
TASKS = sorted(EXAMPLES.glob("*/task*.py"))
KERNELBENCH = Path(__file__).parents[3] / "data" / "kernelbench"
SMALL = {  # one case that the interpreter runs in a moment; the shapes of a GPU are not for it
    "batch_event_truncate/task": {"features": 1, "events": 12, "keep": 5},
    "conv1d/task_cuda": {"batch": 2, "channels": 20, "length": 30},
    "mapid/task": {"batch": 777},
    "merge_bucketized_dense/task": {"rows": 33, "features": 3, "most": 4},
    "optimized_fm/task_cuda": {"batch": 2, "n": 17, "d": 20, "k": 30},
    "pffn/task_cuda": {"batch": 1, "n": 20, "d": 24, "k": 40},
    "rmsnorm_backward/task_cuda": {"rows": 9, "hidden": 100},
    "rmsnorm_residual/task_cuda": {"rows": 3, "hidden": 300, "dtype": "float16"},
    "softmax_cross_entropy/task_cuda": {"rows": 5, "classes": 1003, "dtype": "float16"},
}


@needs_triton
@pytest.mark.parametrize("name", SMALL)
def test_the_triton_start_is_right_and_compiles(judge: OpenJudge, name: str) -> None:
    run, executor = judge.run, judge.executor
    path = EXAMPLES / f"{name}.py"
    source = (
        f"{path.read_text()}\nCASES, WEIGHTS, PROTECTED, HELD_OUT = {{'small': {SMALL[name]}}}, "
        "{}, [], []\n"
    )
    start = Candidate((path.parent / "start_triton.py").read_text(), "triton")
    task = run(executor.open_task(source, str(path), "cpu", timed=False))
    assert task.name == path.parent.name + path.stem.removeprefix("task")
    found = run(executor.evaluate(task, EvaluationRequest(start, "check", "verify"), "cpu"))
    assert found.status == "correct", found.message
    built = run(executor.evaluate(task, EvaluationRequest(start, "check", "build"), "cuda:sm_90"))
    assert built.status == "correct", built.message


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize(
    ("folder", "case"),
    [
        ("mapid", {"batch": 777}),
        ("rmsnorm_residual", {"rows": 3}),
        ("softmax_cross_entropy", {"rows": 5, "classes": 1003}),
    ],
)
def test_the_start_of_a_cpu_is_right_and_timed(
    judge: OpenJudge, folder: str, case: dict[str, int]
) -> None:
    path = EXAMPLES / folder / "task.py"
    source = (
        f"{path.read_text()}\nCASES, WEIGHTS, PROTECTED, HELD_OUT = {{'small': {case}}}, {{}}, [], "
        "[]\n"
    )
    found = timed(judge, source, path, (path.parent / "start.py").read_text())
    assert found.status == "correct", found.message
    assert found.cases[0].speedup


@pytest.mark.parametrize("name", ["argmax_rows", "lstm_step", "mse_loss"])
def test_outputs_of_every_kind_are_timed(judge: OpenJudge, name: str) -> None:
    """Integers, several tensors, one number."""
    path = KERNELBENCH / f"{name}.py"
    source = path.read_text()
    found = timed(judge, source, path, re.sub(r"\bclass Model\b", "class ModelNew", source))
    assert found.status == "correct", found.message
    assert found.cases[0].speedup


def timed(judge: OpenJudge, source: str, path: Path, candidate: str) -> Evaluation:
    task = judge.run(judge.executor.open_task(source, str(path), "cpu"))
    request = EvaluationRequest(
        Candidate(candidate, "cpp"), "search", "time", Policy(library_calls="allow")
    )
    return judge.run(judge.executor.evaluate(task, request, "cpu"))


@pytest.mark.parametrize("path", TASKS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_declared_cases_resolve(path: Path) -> None:
    task = task_file.read(path.read_text(), path.name)
    assert any(not case.held_out for case in task.cases)
    for case in task.cases:
        assert isinstance(task.init_inputs(case), list)


def test_every_example_is_covered() -> None:
    folders = {p.parent.name for p in TASKS}
    assert {name.partition("/")[0] for name in SMALL} == folders
    assert all(
        (EXAMPLES / f / "README.md").exists() and (EXAMPLES / f / "start_triton.py").exists()
        for f in folders
    )


@pytest.mark.parametrize("folder", ["conv1d", "optimized_fm", "pffn", "rmsnorm_backward"])
def test_both_task_files_of_a_folder_have_the_same_operator(folder: str) -> None:
    """What differs is the cases: the file for a CPU is the one that can be verified everywhere."""

    def classes(name: str) -> list[str]:
        tree = ast.parse((EXAMPLES / folder / name).read_text())
        return [
            ast.unparse(s)
            for s in tree.body
            if isinstance(s, ast.ClassDef) or "BASELINES" in ast.unparse(s)
        ]

    assert classes("task.py") == classes("task_cuda.py") != []


@pytest.mark.quiet
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize(("folder", "case"), [("rmsnorm_residual", {"rows": 64})])
def test_figures_of_one_answer_agree(judge: OpenJudge, folder: str, case: dict[str, int]) -> None:
    path = EXAMPLES / folder / "task.py"
    source = (
        f"{path.read_text()}\nCASES, WEIGHTS, PROTECTED, HELD_OUT = {{'only': {case}}}, {{}}, [], "
        "[]\n"
    )
    task = judge.run(judge.executor.open_task(source, str(path), "cpu"))
    start = Candidate((path.parent / "start.py").read_text(), "cpp")
    found = judge.run(judge.executor.evaluate(task, EvaluationRequest(start), "cpu"))
    (result,) = found.cases
    assert result.latency_us
    assert result.warm_us
    assert result.baseline_warm_us
    assert result.speedup
    assert result.interval
    assert result.baseline
    assert result.end_to_end_us is None, "on a CPU a call is over when it returns"
    assert result.warm_us < 1.5 * result.latency_us, (
        "warm caches and memory in use make nothing slower"
    )
    assert result.baseline_warm_us < 1.5 * result.baselines[result.baseline]
    ratio = result.baselines[result.baseline] / result.latency_us
    assert result.speedup / 1.3 < ratio < 1.3 * result.speedup
    assert result.interval[0] <= result.speedup <= result.interval[1]
    assert result.own_kernel_fraction is None or 0.5 < result.own_kernel_fraction <= 1, (
        "these kernels do nearly all of their call"
    )
    bound = next(s for s in found.signals if "memory_fraction" in s.evidence)
    assert bound.evidence["latency_us"] == result.latency_us
    assert re.search(r"GB/s with inputs in \w+, outputs in \w+", bound.message), bound.message
    share = max(bound.evidence["memory_fraction"], bound.evidence["compute_fraction"])
    assert result.roofline_fraction is not None
    assert 0 < result.roofline_fraction <= 1
    assert re.match(r"memory: inputs in|arithmetic|the baseline's time", result.ceiling)
    assert max(bound.evidence["memory_fraction"], bound.evidence["compute_fraction"]) <= 1
    assert (
        result.roofline_fraction == pytest.approx(share, rel=0.01) or share * result.latency_us < 1
    ), "one ceiling in both"
