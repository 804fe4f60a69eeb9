"""Putting a problem before the judge: opened, its own code or another candidate evaluated, and what
is noted of both."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from harness.targets import nvml
from harness.types import (
    PROTOCOL_VERSION,
    Candidate,
    Evaluation,
    EvaluationRequest,
    Policy,
    Purpose,
    Stage,
    Task,
    TensorSpec,
)
from kevolve_mcp.errors import KEvolveError, TaskRefused
from kevolve_mcp.executors.base import ProgressEvent
from kevolve_mcp.executors.local import LocalExecutor

from .records import Record

LANGUAGE = {"cpu": "cpp", "cuda": "triton"}
SAMPLED_S = 0.05  # between two looks at the device's memory


class Bench:
    """A judge on one target, started when it is needed and again after trouble. Not for several
    calls at once."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.conditions: dict[str, Any] = {}
        self._stack = contextlib.AsyncExitStack()
        self._executor: LocalExecutor | None = None

    async def executor(self) -> LocalExecutor:
        if self._executor is None:
            cache = self._stack.enter_context(
                tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            )
            self._executor = await self._stack.enter_async_context(LocalExecutor(None, Path(cache)))
            report = await self._executor.describe()
            gpus = [gpu.name for gpu in nvml.gpus()] if self.target.startswith("cuda") else []
            self.conditions = {
                "target": self.target,
                "device": ", ".join(gpus) or report.environment.device,
                "toolchain": report.environment.toolchain,
                "protocol": PROTOCOL_VERSION,
            }
        return self._executor

    async def stop(self) -> None:
        """What a judge holds is given back, and the next call finds a fresh one."""
        self._executor = None
        await self._stack.aclose()


class Watch:
    """Seconds and the peak of the device's memory of one piece of work, and what was said of its
    progress last."""

    def __init__(self) -> None:
        self.last = ""
        self.steps: dict[str, float] = {}  # message of the judge -> seconds until the next one
        self.seconds = 0.0
        self.peak = 0
        self._since = 0.0

    def heard(self, event: ProgressEvent) -> None:
        self._close_step()
        self.last = f"{event.stage}: {event.message}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        began = self._since = time.monotonic()
        ended = threading.Event()
        gpus = [gpu.uuid for gpu in nvml.gpus()]
        thread = threading.Thread(target=self._sample, args=(gpus, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._close_step()
            self.seconds += time.monotonic() - began
            ended.set()
            thread.join()

    def _close_step(self) -> None:
        now = time.monotonic()
        if self.last:
            self.steps[self.last] = round(self.steps.get(self.last, 0.0) + now - self._since, 2)
        self._since = now

    def _sample(self, gpus: list[str], ended: threading.Event) -> None:
        while gpus:
            self.peak = max(self.peak, *(nvml.state(uuid).used_bytes for uuid in gpus))
            if ended.wait(SAMPLED_S):
                return


async def opened(
    bench: Bench, source: str, path: str, limit_s: float, *, timed: bool = False
) -> tuple[Task | None, Record]:
    """The task, and a record of how opening ended ("correct" where it opened; part and subject are
    the caller's to fill in)."""
    watch = Watch()
    task: Task | None = None
    async with _told(watch, limit_s) as ending:
        executor = await bench.executor()
        with watch.running():
            task = await executor.open_task(
                source, path, bench.target, timed=timed, progress=watch.heard
            )
    figures: dict[str, Any] = {"open_s": round(watch.seconds, 2), "open_steps": watch.steps}
    if watch.peak:
        figures["device_peak_bytes"] = watch.peak
    if task is not None:
        figures |= {
            "input_bytes": _bytes(spec for case in task.cases for spec in case.inputs),
            "output_bytes": _bytes(spec for case in task.cases for spec in case.outputs),
            "notes": list(task.notes),
            "dropped_families": {
                name: why for case in task.cases for name, why in case.dropped_families.items()
            },
        }
        ending.setdefault("outcome", "correct")
    return task, Record(
        "", "", ending.get("outcome", ""), ending.get("message", ""), figures, bench.conditions
    )


async def evaluated(
    bench: Bench,
    task: Task,
    source: str,
    limit_s: float,
    *,
    through: Stage = "verify",
    purpose: Purpose = "check",
    policy: Policy | None = None,
) -> Record:
    """How a candidate ended; part and subject are the caller's to fill in."""
    watch = Watch()
    found: Evaluation | None = None
    request = EvaluationRequest(
        Candidate(source, LANGUAGE[bench.target]),
        purpose,
        through,
        policy or Policy(library_calls="allow"),
    )
    async with _told(watch, limit_s) as ending:
        executor = await bench.executor()
        with watch.running():
            found = await executor.evaluate(task, request, bench.target, progress=watch.heard)
    figures: dict[str, Any] = {"check_s": round(watch.seconds, 2), "check_steps": watch.steps}
    if watch.peak:
        figures["device_peak_bytes"] = watch.peak
    if found is None:
        return Record("", "", ending["outcome"], ending["message"], figures, bench.conditions)
    figures |= {
        "stages": {s.stage: round(s.seconds, 2) for s in found.stages},
        "signals": [s.name for s in found.signals],
        "doubts": [s.message for s in found.signals if s.kind == "environment"],
        "shares": {
            s.name: s.evidence
            for s in found.signals
            if any("wrong share" in key for key in s.evidence)
        },
        "cases": [_case(c) for c in found.cases],
    }
    return Record(
        "",
        "",
        found.status,
        "" if found.status == "correct" else found.message,
        figures,
        bench.conditions,
    )


@contextlib.asynccontextmanager
async def _told(watch: Watch, limit_s: float) -> AsyncIterator[dict[str, str]]:
    """How it ended where it did not end well."""
    ending: dict[str, str] = {}
    try:
        async with asyncio.timeout(limit_s):
            yield ending
    except TaskRefused as error:
        ending |= {"outcome": "refused", "message": error.message}
    except KEvolveError as error:
        ending |= {
            "outcome": "unavailable",
            "message": f"{error.code}: {error} (last: {watch.last or 'nothing'})",
        }
    except TimeoutError:
        said = watch.last or "the judge was started"
        ending |= {"outcome": "timeout", "message": f"not done after {limit_s:.0f} s; last: {said}"}


def _case(case: Any) -> dict[str, Any]:
    names = (
        "name",
        "error",
        "framework_error",
        "tolerance",
        "speedup",
        "interval",
        "verdict",
        "baseline",
        "latency_us",
        "pairs",
        "detail",
    )
    return {name: value for name in names if (value := getattr(case, name)) not in (None, "")}


def _bytes(specs: Iterator[TensorSpec]) -> int:
    return sum(spec.nbytes for spec in specs)
