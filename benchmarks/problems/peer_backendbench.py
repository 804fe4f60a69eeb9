"""BackendBench's own evaluation, from a checkout; see peers.py.

Its `eval_one_op` compares a callable with an operator on tests, and times both with
`triton.testing.do_bench` on the first. Here the operator is the reference's forward, the callable
the candidate's, both constructed from one seed; a test is one draw of the task's inputs. Its
packages import clients of language models and other suites where they are imported whole; only the
evaluation is loaded, which needs torch alone, and triton on a GPU.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from benchmarks.problems.peers import CORRECT_TRIALS, TITLES, Judge, answer, serve

SEED = 42


def start(folder: Path) -> tuple[Judge, list[str]]:
    package = folder / "BackendBench"
    if not (package / "eval.py").is_file():
        raise ImportError(f"{package / 'eval.py'} is missing; name the root of a checkout")
    packages = {"BackendBench": package, "BackendBench.suite": package / "suite"}
    for name, path in packages.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    evaluation = importlib.import_module("BackendBench.eval")
    tests = importlib.import_module("BackendBench.suite.base")
    return functools.partial(_judged, evaluation, tests.Test), sorted(packages)


def _judged(evaluation: Any, test_class: Any, request: dict[str, Any]) -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        try:
            task = _module(Path(folder, "task.py"), request["source"])
            reference = _constructed(task.Model, task, device)
            candidate = _module(Path(folder, "candidate.py"), request["candidate"])
            kernel = _constructed(candidate.ModelNew, task, device)
        except Exception as error:
            return answer("crashed", f"{type(error).__name__}: {error}")
        tests = [_test(test_class, task, device) for _ in range(CORRECT_TRIALS)]
        share, speedup, results, _ = evaluation.eval_one_op(
            reference.forward, kernel.forward, tests, tests[:1] if request["timed"] else []
        )
    figures = {"speedup": round(float(speedup), 4)} if request["timed"] else {}
    if share == 1.0:
        return answer("correct", **figures)
    wrong = next(result for result in results if not result.is_correct)
    message = wrong.error_msg or f"largest absolute error {wrong.max_abs_error}"
    return answer("crashed" if wrong.error_type else "incorrect", message[-400:], **figures)


def _module(path: Path, text: str) -> types.ModuleType:
    """The text as a module from a file: triton reads a kernel's source from there."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _constructed(model: Any, task: types.ModuleType, device: str) -> Any:
    import torch

    torch.manual_seed(SEED)
    return model(*task.get_init_inputs()).to(device)


def _test(test_class: Any, task: types.ModuleType, device: str) -> Any:
    import torch

    inputs = [
        value.to(device) if isinstance(value, torch.Tensor) else value
        for value in task.get_inputs()
    ]
    return test_class(*(functools.partial(_same, value) for value in inputs))


def _same(value: Any) -> Any:
    return value


if __name__ == "__main__":
    serve(TITLES["backendbench"], start)
