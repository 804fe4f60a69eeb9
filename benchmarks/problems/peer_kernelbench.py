"""KernelBench's own evaluation, from a checkout; see peers.py.

It is called as its own scripts call it: five correctness trials, and a hundred calls timed by
events where figures are asked for. What its package imports besides (clients of language models,
above all) and never calls while it evaluates may be missing: a stand-in takes its place, and the
answer names it. numpy, requests and torch it needs, and a CUDA device.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from benchmarks.problems.peers import CORRECT_TRIALS, TITLES, Judge, answer, serve

TIMED_CALLS = 100  # scripts/eval_from_generations.py


def start(folder: Path) -> tuple[Judge, list[str]]:
    stand_ins = _stand_in()
    return functools.partial(_judged, _load(folder)), stand_ins


def _load(folder: Path) -> Any:
    """Its module `eval`. Raises ImportError, or RuntimeError without a CUDA device."""
    source = folder / "src"
    if not (source / "kernelbench" / "eval.py").is_file():
        raise ImportError(
            f"{source / 'kernelbench' / 'eval.py'} is missing; name the root of a checkout"
        )
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("it needs a CUDA device, and torch finds none")
    sys.path.insert(0, str(source))
    return importlib.import_module("kernelbench.eval")


def _stand_in() -> list[str]:
    """Modules that it imports and does not call while it evaluates, where they are missing."""
    nothing: Any = lambda *_, **__: None  # noqa: E731
    wanted: dict[str, dict[str, Any]] = {
        "dotenv": {"load_dotenv": nothing},
        "tqdm": {"tqdm": nothing},
        "openai": {"OpenAI": object},
        "litellm": {"completion": nothing},
        "pydantic": {"BaseModel": _Fields},
    }
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    for name in missing:
        module = types.ModuleType(name)
        vars(module).update(wanted[name])
        sys.modules[name] = module
    return missing


class _Fields:
    """In pydantic's place, for a record: attributes by keyword, with the class's own as
    defaults."""

    def __init__(self, **given: Any) -> None:
        for name in getattr(type(self), "__annotations__", {}):
            setattr(self, name, given.get(name, copy.deepcopy(getattr(type(self), name, None))))


def _judged(evaluation: Any, request: dict[str, Any]) -> dict[str, Any]:
    import torch

    result = evaluation.eval_kernel_against_ref(
        request["source"],
        request["candidate"],
        num_correct_trials=CORRECT_TRIALS,
        num_perf_trials=TIMED_CALLS,
        measure_performance=request["timed"],
        device=torch.device("cuda:0"),
        backend="triton" if request["triton"] else "cuda",
    )
    if result is None:
        return answer("unavailable", "it returned no result")
    figures: dict[str, Any] = {}
    if result.runtime > 0 and result.ref_runtime > 0:
        figures["speedup"] = round(result.ref_runtime / result.runtime, 4)
    remarks = {
        name: str(value)[:400]
        for name, value in result.metadata.items()
        if name not in ("hardware", "device")
    }
    if result.correctness:
        return answer("correct", **figures, said=remarks)
    crashed = not result.compiled or "runtime_error" in result.metadata
    return answer(
        "crashed" if crashed else "incorrect",
        "; ".join(f"{name}: {text}" for name, text in remarks.items()),
        **figures,
    )


if __name__ == "__main__":
    serve(TITLES["kernelbench"], start)
