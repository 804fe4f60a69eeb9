"""The short calls of a burst one by one: what a candidate does in one of them is found as in any call, and nothing is there ahead."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from harness.judge import bursts, sets
from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Task
from harness.workers import buffers, frames, gate
from kevolve_mcp.executors.testing import Opened

TINY = Path(__file__).parents[1] / "exploits" / "tasks" / "tiny.py"
CANDIDATE = """
import os
import sys
import time

import torch
import torch.nn as nn


def timed():
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_one_by_one":
        frame = frame.f_back
    return frame


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        frame = timed()
        if frame is not None:
            DEED
        return torch.tanh(x) * self.weight + x.sum(dim=-1, keepdim=True)
"""


@pytest.fixture(scope="module")
def tiny(judge: Opened) -> Task:
    return judge.run(judge.executor.open_task(TINY.read_text(), str(TINY), "cpu"))


def evaluated(judge: Opened, tiny: Task, deed: str) -> Evaluation:
    request = EvaluationRequest(
        Candidate(CANDIDATE.replace("DEED", deed), "cpp"), "search", "time", Policy(library_calls="allow")
    )
    return judge.run(judge.executor.evaluate(tiny, request, "cpu"))


@pytest.mark.parametrize(
    ("deed", "status", "words"),
    [
        ("raise ValueError('of mine')", "crashed", "of mine"),
        ("os._exit(3)", "crashed", "exit code 3"),
        ("time.sleep(1000)", "timed_out", ""),
        ("frame.f_locals['calls'].tell(16, 99)", "incorrect", "a timed call is wrong"),
    ],
)
def test_what_goes_wrong_in_a_timed_call_is_found(judge: Opened, tiny: Task, deed: str, status: str, words: str) -> None:
    """The last: outputs that are said to be there before they are."""
    found = evaluated(judge, tiny, deed)
    assert (found.status, words in found.message) == (status, True), found.message


def test_the_next_inputs_are_not_there_while_a_call_runs(judge: Opened, tiny: Task) -> None:
    deed = """
            arguments = frame.f_locals['arguments']
            self.first = getattr(self, 'first', arguments)  # what lies there in the next burst is that of this one
            ahead = [one[0] for one in arguments[frame.f_locals['number']:]]
            if arguments is self.first and any(bool(one.any()) for one in ahead):
                raise ValueError('inputs of a later call are there')"""
    found = evaluated(judge, tiny, f"pass{deed}")
    assert found.status == "correct", found.message


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
def test_a_kernel_may_be_built_in_a_timed_call(judge: Opened, tiny: Task) -> None:
    deed = """
            if not hasattr(self, "built"):
                from harness.native import load_cpp
                self.built = load_cpp('extern "C" int built_in_a_timed_call() { return 1; }')"""
    found = evaluated(judge, tiny, f"pass{deed}")
    assert found.status == "correct", found.message


class Eager:
    """A worker whose reply is there as soon as its last outputs are."""

    def __init__(self, table: bursts.Table, calls: int) -> None:
        self._table, self._calls = table, calls
        self._reply: frames.Reply | None = None
        self._thread = threading.Thread(target=self._work)
        self.killed = False

    def send(self, *_: object, **__: object) -> None: ...

    def go(self, _: list[int]) -> None:
        self._thread.start()

    def kill(self) -> None:
        self.killed = True

    def _work(self) -> None:
        own = gate.Gate(self._table.gate_fd)
        own.tell(gate.DONE, 1)
        for number in range(1, self._calls + 1):
            own.wait(gate.GIVEN, number, lambda: None)
            own.tell(gate.DONE, number + 1)
        own.wait(gate.GIVEN, self._calls + 1, lambda: None)
        own.tell(gate.DONE, self._calls + 2)
        self._reply = frames.Reply(frames.OK, values=(5, 0, 0, 0, 5, 0))

    def attend(self) -> tuple[frames.Reply | None, float]:
        if not self._table.gate.reached(gate.GIVEN, self._calls + 1):
            return None, 0.0
        self._thread.join()  # so that the reply comes first
        reply, self._reply = self._reply, None
        return reply, 0.0

    def wait(self, wanted: int, seconds: float) -> frames.Reply:
        if wanted == frames.READY:
            return frames.Reply(frames.READY)
        self._thread.join()
        assert self._reply is not None
        return self._reply


def test_a_reply_that_comes_with_the_last_outputs_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by comparing equal kernels for twenty minutes: one was accused."""
    monkeypatch.setattr(gate, "SPINS", 1)
    held = sets.InputSet(sets.InputFile(buffers.create("inputs", 64)), 0, {"bytes": 64, "leaves": [], "tree": []}, [])
    for _ in range(50):
        table, slots = bursts.Table(4, 64), bursts.Slots(4, 64)
        worker: Any = Eager(table, 4)
        result = bursts.run_one_by_one(worker, slots, table, "case", [held] * 4, 10.0)
        assert (result.inside_ns, worker.killed) == (5, False)
