"""KernelBench's own evaluation, from a checkout, in a process of its own: this file is that
process, and what starts it.

    python -m benchmarks.problems.peer FOLDER    one JSON object a line: {"source", "candidate",
                                                 "triton", "timed"} in, an answer out

It is called as its own scripts call it: five correctness trials, and a hundred calls timed by
events where figures are asked for. What its package imports besides (clients of language models,
above all) and never calls while it evaluates may be missing: a stand-in takes its place, and the
answer names it. numpy, requests and torch it needs, and a CUDA device.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORRECT_TRIALS, TIMED_CALLS = 5, 100  # scripts/eval_from_generations.py
STARTING_S = 120.0
WHOLE_LINE = 64 << 20


class Peer:
    """One process of it. An answer has outcome ("correct", "incorrect", "crashed", "unavailable",
    "timeout"), message and figures."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._stand_ins: list[str] = []

    async def judge(
        self,
        source: str,
        candidate: str,
        limit_s: float,
        *,
        triton: bool = False,
        timed: bool = False,
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(limit_s):
                if self._process is None and (reason := await self._start()):
                    return _answer("unavailable", reason)
                found = await self._ask(
                    {"source": source, "candidate": candidate, "triton": triton, "timed": timed}
                )
        except TimeoutError:
            await self.stop()
            return _answer("timeout", f"not done after {limit_s:.0f} s")
        if not found:
            code = await self._ended()
            return _answer("crashed", f"its process ended with {code}")
        return {**found, "figures": {**found["figures"], "stand_ins": self._stand_ins}}

    async def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._ended()

    async def _start(self) -> str:
        """Why it cannot run here, "" where it can."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.problems.peer",
            str(self._folder.resolve()),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=WHOLE_LINE,
        )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        said = (
            json.loads(line)
            if line
            else {"reason": f"its process ended with {await self._ended()}"}
        )
        self._stand_ins = said.get("stand_ins", [])
        if reason := str(said.get("reason", "")):
            await self.stop()
        return reason

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        return json.loads(line) if line else {}

    async def _ended(self) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        return await process.wait()


def _answer(outcome: str, message: str = "", **figures: Any) -> dict[str, Any]:
    return {"outcome": outcome, "message": message, "figures": figures}


# ---- in its process ------------------------------------------------------------------------------


def serve(folder: Path) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # it prints

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()

    try:
        stand_ins = _stand_in()
        evaluation = _load(folder)
    except Exception as error:
        say(
            {
                "reason": (
                    f"KernelBench's evaluation does not run here: {type(error).__name__}: {error}"
                )
            }
        )
        return
    say({"stand_ins": stand_ins})
    for line in sys.stdin:
        say(_judged(evaluation, json.loads(line)))


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


def _judged(evaluation: Any, asked: dict[str, Any], device: str = "cuda:0") -> dict[str, Any]:
    import torch

    began = time.monotonic()
    try:
        found = evaluation.eval_kernel_against_ref(
            asked["source"],
            asked["candidate"],
            num_correct_trials=CORRECT_TRIALS,
            num_perf_trials=TIMED_CALLS,
            measure_performance=asked["timed"],
            device=torch.device(device),
            backend="triton" if asked["triton"] else "cuda",
        )
    except Exception as error:
        return _answer(
            "unavailable",
            f"{type(error).__name__}: {error}",
            seconds=round(time.monotonic() - began, 2),
        )
    figures: dict[str, Any] = {"seconds": round(time.monotonic() - began, 2)}
    if found is None:
        return _answer("unavailable", "it returned no result", **figures)
    if found.runtime > 0 and found.ref_runtime > 0:
        figures["speedup"] = round(found.ref_runtime / found.runtime, 4)
    said = {
        name: str(value)[:400]
        for name, value in found.metadata.items()
        if name not in ("hardware", "device")
    }
    if found.correctness:
        return _answer("correct", **figures, said=said)
    crashed = not found.compiled or "runtime_error" in found.metadata
    return _answer(
        "crashed" if crashed else "incorrect",
        "; ".join(f"{k}: {v}" for k, v in said.items()),
        **figures,
    )


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
