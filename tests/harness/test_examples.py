"""Every example's Triton start is right (in Triton's interpreter, on a small case) and compiles for a GPU that is not here."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.types import Candidate, EvaluationRequest
from harness.workers import task_file
from kevolve_mcp.executors.testing import Opened

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples"
TASKS = sorted(EXAMPLES.glob("*/task*.py"))
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
def test_the_triton_start_is_right_and_compiles(judge: Opened, name: str) -> None:
    run, executor = judge.run, judge.executor
    path = EXAMPLES / f"{name}.py"
    source = f"{path.read_text()}\nCASES, WEIGHTS, PROTECTED, HELD_OUT = {{'small': {SMALL[name]}}}, {{}}, [], []\n"
    start = Candidate((path.parent / "start_triton.py").read_text(), "triton")
    task = run(executor.open_task(source, str(path), "cpu", timed=False))
    assert task.name == path.parent.name + path.stem.removeprefix("task")
    found = run(executor.evaluate(task, EvaluationRequest(start, "check", "verify"), "cpu"))
    assert found.status == "correct", found.message
    built = run(executor.evaluate(task, EvaluationRequest(start, "check", "build"), "cuda:sm_90"))
    assert built.status == "correct", built.message


@pytest.mark.parametrize("path", TASKS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_declared_cases_resolve(path: Path) -> None:
    task = task_file.read(path.read_text(), path.name)
    assert any(not case.held_out for case in task.cases)
    for case in task.cases:
        assert isinstance(task.init_inputs(case), list)


def test_every_example_is_covered() -> None:
    folders = {p.parent.name for p in TASKS}
    assert {name.partition("/")[0] for name in SMALL} == folders
    assert all((EXAMPLES / f / "README.md").exists() and (EXAMPLES / f / "start_triton.py").exists() for f in folders)


@pytest.mark.parametrize("folder", ["conv1d", "optimized_fm", "pffn", "rmsnorm_backward"])
def test_both_task_files_of_a_folder_have_the_same_operator(folder: str) -> None:
    """What differs is the cases: the file for a CPU is the one that can be verified everywhere."""

    def classes(name: str) -> list[str]:
        tree = ast.parse((EXAMPLES / folder / name).read_text())
        return [ast.unparse(s) for s in tree.body if isinstance(s, ast.ClassDef) or "BASELINES" in ast.unparse(s)]

    assert classes("task.py") == classes("task_cuda.py") != []
