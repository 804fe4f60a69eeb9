"""The judge process: JSON lines on stdin and stdout. It imports neither task nor candidate, and
ends when stdin closes.

Requests: {"id", "op": "describe" | "open_task" | "evaluate" | "compare", ...} and {"op": "cancel",
"id"}. Requests run one after another. Answers: {"id", "event": {"stage", "message", "fraction"}}
during the work, then {"id", "result"} or {"id", "error": {"kind": "task_refused" | "unavailable" |
"cancelled" | "failed", "message", "hint"}}."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from .availability import CapabilityMissing
from .device.health import Unwell
from .device.locks import LockBroken
from .device.machine import Machine
from .errors import Cancelled, CancelToken, TaskRefusedError, WorkerFailed
from .exchange import device_link
from .failures import Unfit
from .idle import PAUSE_SECONDS, Idle
from .open_tasks import OpenTasks
from .request_handlers import FRESH, RequestHandlers
from .tasks.open_task import Tell
from .tasks.opening_cache import OpeningCache

REFUSED_HINT = "Fix the task file and open it again."
UNFIT_HINT = (
    "Verify it on a GPU (target cuda), verify a float32 or float16 version on this machine, or "
    "only compile it for a GPU (target cuda:sm_90)."
)
MOST_DESCRIPTORS = 1 << 16
IDLE_SECONDS = 60.0  # time without a request after which no worker is kept ready on a device


class Judge:
    """One worker thread does everything; the main thread reads requests and cancellations."""

    def __init__(self, cache: Path) -> None:
        self._machine = Machine(cache)
        self._machine.expect_first()
        self._idle, openings = Idle(), OpeningCache(self._machine)
        self._tasks = OpenTasks(self._machine, openings, self._idle)
        self._handlers = RequestHandlers(self._machine, self._tasks, openings, self._idle)
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._tokens: dict[int, CancelToken] = {}
        self._lock = threading.Lock()
        self._closing = False

    def serve(self) -> None:
        """Serve until stdin closes, then end everything that was started at once."""
        threading.Thread(target=self._work, daemon=True).start()
        for line in sys.stdin:
            message = json.loads(line)
            if message["op"] == "cancel":
                with self._lock:
                    token = self._tokens.get(message["id"])
                if token is not None:
                    token.cancel()
                continue
            with self._lock:
                self._tokens[message["id"]] = CancelToken()
            self._requests.put(message)
            searching = message["op"] == "compare" or (
                message["op"] == "evaluate" and message["request"]["purpose"] not in FRESH
            )
            self._idle.interrupt(message["task"]["digest"] if searching else "")
        self._closing = True
        self._idle.close()
        self._machine.close()
        os._exit(0)  # workers die with their parents

    def _work(self) -> None:
        while True:
            try:
                message = self._requests.get(
                    timeout=PAUSE_SECONDS if self._idle.planned else IDLE_SECONDS
                )
            except queue.Empty:
                if self._idle.planned:
                    self._idle.run(lambda: not self._requests.empty())
                    continue
                self._machine.spare_worker.drop()
                self._machine.reaper.wait()
                continue
            number = message["id"]
            token = self._tokens[number]
            try:
                token.check()
                answer = {
                    "id": number,
                    "result": self._answer(message, _teller(number), token),
                }
            except _Closing:
                return
            except Cancelled:
                self._machine.reaper.wait()  # its processes end before the caller gets the answer
                answer = _error(number, "cancelled", "cancelled", "")
            except TaskRefusedError as error:
                answer = _error(number, "task_refused", str(error), REFUSED_HINT)
            except CapabilityMissing as error:
                answer = _error(number, "unavailable", str(error), error.hint)
            except Unfit as error:
                answer = _error(number, "unavailable", str(error), UNFIT_HINT)
            except Unwell as error:
                self._tasks.close_all()
                answer = _error(number, "failed", str(error), error.hint)
            except LockBroken as error:
                answer = _error(
                    number, "failed", str(error), "Fix the lock file, then repeat the call."
                )
            except WorkerFailed as error:
                self._tasks.close_all()
                # a step that opening a task does not include, such as a held-out case
                if error.kind == "task":
                    answer = _error(number, "task_refused", str(error), REFUSED_HINT)
                else:
                    answer = _failure_reply(number, error)
            # an error of the evaluator itself: reported as such, never as a verdict
            except Exception as error:
                self._tasks.close_all()
                answer = _failure_reply(number, error)
            with self._lock:
                self._tokens.pop(number).close()
            _say(answer)

    def _answer(self, message: dict[str, Any], tell: Tell, token: CancelToken) -> Any:
        """Return the result of a request. If the device has no memory left for the judge's own
        part, try once more with all other tasks closed. Raises TaskRefusedError if that is not
        enough, and _Closing for whatever fails while the judge ends its processes."""
        try:
            return getattr(self._handlers, message["op"])(message, tell, token)
        except Exception as error:
            if self._closing:
                raise _Closing from error
            if not device_link.is_want_of_memory(error):
                raise
            several, reason = len(self._tasks) > 1, str(error).splitlines()[0]
        self._tasks.free_memory()  # only now: the traceback referred to input sets
        if several:
            return self._answer(message, tell, token)
        raise TaskRefusedError(
            f"the device's memory ran out while this was judged: {reason} The task was closed, and "
            f"{device_link.free_bytes() / 2**30:.1f} GiB are free now. Use smaller shapes, or a "
            "machine with more memory."
        )


class _Closing(Exception):
    """The judge is ending, so nobody waits for the answer, and its failure says nothing."""


def _failure_reply(number: int, error: Exception) -> dict[str, Any]:
    """Print the traceback and return the answer. Call it in the exception's handler."""
    traceback.print_exc()
    hint = "See the judge's log on stderr; the call may be repeated."
    return _error(number, "failed", f"{type(error).__name__}: {error}", hint)


def _error(number: int, kind: str, message: str, hint: str) -> dict[str, Any]:
    return {"id": number, "error": {"kind": kind, "message": message, "hint": hint}}


def _teller(number: int) -> Tell:
    """Return a function that reports progress on the request with this number."""
    return lambda stage, text, fraction: _say(
        {"id": number, "event": {"stage": stage, "message": text, "fraction": fraction}}
    )


_output = threading.Lock()


def _say(answer: dict[str, Any]) -> None:
    # a caller that is gone closes stdin as well, which ends the judge
    with _output, contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main(cache: str) -> None:
    """Run the judge. Raises the limit on open files, since every input set is a descriptor and
    small cases have hundreds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))
    Judge(Path(cache)).serve()
