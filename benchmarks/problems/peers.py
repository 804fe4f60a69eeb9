"""Other evaluators that are shown the same problems, each from a checkout of its own and in a
process of its own.

    python -m benchmarks.problems.peer_NAME FOLDER    one JSON object a line: {"source",
                                                      "candidate", "triton", "timed"} in, an
                                                      answer out

An answer has outcome ("correct", "incorrect", "crashed", "unavailable", "timeout"), message and
figures: seconds, and speedup where the candidate was timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORRECT_TRIALS = 5  # as KernelBench's scripts/eval_from_generations.py; for each of the others, too
STARTING_S = 120.0
WHOLE_LINE = 64 << 20
TITLES = {
    "kernelbench": "KernelBench's evaluation",
    "backendbench": "BackendBench's evaluation",
}


class Peer:
    """One process of the evaluator `name`, from its checkout in `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self._module = f"benchmarks.problems.peer_{name}"
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
                    return answer("unavailable", reason)
                found = await self._ask(
                    {"source": source, "candidate": candidate, "triton": triton, "timed": timed}
                )
        except TimeoutError:
            await self.stop()
            return answer("timeout", f"not done after {limit_s:.0f} s")
        if not found:
            code = await self._ended()
            return answer("crashed", f"its process ended with {code}")
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
            self._module,
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


def answer(outcome: str, message: str = "", **figures: Any) -> dict[str, Any]:
    return {"outcome": outcome, "message": message, "figures": figures}


# ---- in a peer's process -------------------------------------------------------------------------

Judge = Callable[[dict[str, Any]], dict[str, Any]]


def serve(title: str, start: Callable[[Path], tuple[Judge, list[str]]]) -> None:
    """Answer requests from the standard input until it ends.

    Args:
        title: The evaluator's name, for messages.
        start: Loads it from its checkout; returns what judges a request, and the modules that
            stand-ins replace. Raises where it cannot run here.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # evaluators print

    def reply(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message, default=str) + "\n")
        answers.flush()

    try:
        judge, stand_ins = start(Path(sys.argv[1]))
    except Exception as error:
        reply({"reason": f"{title} does not run here: {type(error).__name__}: {error}"})
        return
    reply({"stand_ins": stand_ins})
    for line in sys.stdin:
        began = time.monotonic()
        try:
            verdict = judge(json.loads(line))
        except Exception as error:
            verdict = answer("unavailable", f"{type(error).__name__}: {error}")
        verdict["figures"]["seconds"] = round(time.monotonic() - began, 2)
        reply(verdict)
