"""Calls on a CPU one by one: what a candidate does in one of them is found as in any call, nothing
is there ahead, and nothing that its process says of time counts."""

from __future__ import annotations

import json
import socket
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.exchange import bills
from harness.judge.exchange.worker_outputs import are_dense, same
from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Task
from harness.wire import frames, memory_files
from harness.wire.layouts import PLAIN_BYTES, dense_layout, plan_layout
from harness.workers import call_form, gate, gate_links, modules
from kevolve_mcp.executors.testing import OpenJudge

TASKS = Path(__file__).parents[3] / "exploits" / "tasks"
TRIES = 3  # where the machine does something else as well
CANDIDATE = """
import os
import sys
import time

import torch
import torch.nn as nn


def serving():
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "serve":
        frame = frame.f_back
    return frame if frame is not None and "link" in frame.f_locals else None


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        frame = serving()
        if frame is not None:
            DEED
        return torch.tanh(x) * self.weight + x.sum(dim=-1, keepdim=True)
"""


@pytest.fixture(scope="module", params=["tiny", "rows"])
def task(judge: OpenJudge, request: pytest.FixtureRequest) -> Task:
    """Calls by packet, and calls that are billed."""
    path = TASKS / f"{request.param}.py"
    return judge.run(judge.executor.open_task(path.read_text(), str(path), "cpu"))


def evaluated(judge: OpenJudge, task: Task, deed: str) -> Evaluation:
    source = CANDIDATE.replace("DEED", deed)
    request = EvaluationRequest(
        Candidate(source, "cpp"), "search", "time", Policy(library_calls="allow")
    )
    return judge.run(judge.executor.evaluate(task, request, "cpu"))


@pytest.mark.parametrize(
    ("deed", "status", "words"),
    [
        ("raise ValueError('of mine')", "crashed", "of mine"),
        ("os._exit(3)", "crashed", "exit code 3"),
        ("time.sleep(1000)", "timed_out", ""),
        ("return x[:1]", "incorrect", "shape"),
        ("return x.double()", "incorrect", "float64"),
        ("return torch.tanh(x)", "incorrect", "a timed call is wrong"),
        (
            "frame.f_locals['self']._words[8] += 1; frame.f_locals['link'].answer(whole=True)",
            "",
            "",
        ),
    ],
)
def test_what_goes_wrong_in_a_timed_call_is_found(
    judge: OpenJudge, task: Task, deed: str, status: str, words: str
) -> None:
    """The last: an answer that comes before the outputs."""
    found = evaluated(judge, task, deed)
    assert found.status == status if status else found.status in ("incorrect", "reward_hack"), (
        found.message
    )
    assert words in found.message


@pytest.mark.parametrize(
    "form", ["x.t().contiguous().t()", "x[:, :1].expand(x.shape)", "x.flip(0).flip(0)"]
)
def test_outputs_with_gaps_are_read_as_they_are(judge: OpenJudge, task: Task, form: str) -> None:
    """Transposed, repeated along an axis, and in one piece: added to the right result as zeros."""
    deed = (
        "return (torch.tanh(x) * self.weight + x.sum(dim=-1, keepdim=True) + 0 * "
        f"({form})).t().contiguous().t()"
    )
    found = evaluated(judge, task, deed)
    assert found.status == "correct", found.message


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize(
    ("when", "status"),
    [("frame is not None", "build_failed"), ("True", "correct"), ("frame is None", "correct")],
)
def test_a_timed_call_gets_what_was_built_while_it_was_checked(
    judge: OpenJudge, task: Task, when: str, status: str
) -> None:
    """The last: what is not ordered while it is timed."""
    deed = f"""
            pass
        if {when} and not hasattr(self, "built"):
            from harness.native import load_cpp
            self.built = load_cpp('extern "C" int built_in_a_call() {{ return 1; }}')"""
    found = evaluated(judge, task, deed)
    assert found.status == status, found.message
    assert status == "correct" or "build what you need when the module is loaded" in found.message


@pytest.mark.quiet
def test_the_clock_is_the_judges_and_says_what_it_leaves_open(judge: OpenJudge, task: Task) -> None:
    for _ in range(TRIES):  # some 30 us on a quiet machine, and more on a busy one
        (case,) = evaluated(judge, task, "pass").cases
        assert case.clock == "judge"
        assert case.open_us is not None
        assert case.open_us > 0
        if case.open_us < 1_000:
            return
    raise AssertionError(f"{case.open_us} us are left open")


@pytest.mark.quiet
def test_waiting_for_something_else_counts(judge: OpenJudge, task: Task) -> None:
    """A process that sleeps runs nothing, and is as slow as it is; but for what the judge waits for
    its own core meanwhile."""
    for _ in range(TRIES):
        (case,) = evaluated(judge, task, "time.sleep(0.01)").cases
        assert case.latency_us is not None
        if case.latency_us > 9_000:
            return
    raise AssertionError(f"it took {case.latency_us} us")


class Pair:
    """Both ends of a link by packets, and a thread that serves."""

    def __init__(self, model: Any, shape: tuple[int, ...] = (4, 4)) -> None:
        self.layout = plan_layout([torch.zeros(shape), 3])
        self.outputs = call_form.output_forms(dense_layout(plan_layout([torch.zeros(shape)])))
        fd = memory_files.create("gate", gate.gate_bytes(1))
        self.ours, theirs = frames.pair()
        self.ours.settimeout(30)  # whoever serves may have failed
        self.judge = gate.Gate(fd, 1)
        link, door = gate_links.Packets(theirs.fileno(), self.layout, 1), gate.Gate(fd, 1)
        self._thread = threading.Thread(
            target=lambda: door.serve(
                link, [model], call_form.CallForm(self.layout, self.outputs, 1)
            )
        )
        self._thread.start()
        self._theirs = theirs

    def ask(self, order: int, sent: bytes = b"-", number: int = 0, plain: bytes = b"") -> bytes:
        self.judge.order(order, number, plain)
        self.ours.send(sent)
        return self.ours.recv(1 << 16)

    def close(self) -> None:
        self.ask(gate.END)
        self._thread.join()
        for end in (self.ours, self._theirs):
            end.close()


@pytest.fixture
def doubling() -> Any:
    pair = Pair(lambda inputs: [inputs[0] * inputs[1]])
    yield pair
    pair.close()


def test_inputs_and_outputs_are_packets(doubling: Pair) -> None:
    x = torch.randn(4, 4)
    sent = x.numpy().tobytes()
    assert doubling.ask(gate.CALL, sent) == (x * 3).numpy().tobytes()
    assert doubling.ask(gate.CALL, sent, plain=b"[5]") == (x * 5).numpy().tobytes()
    assert len(doubling.ask(gate.NOTHING)) == 64
    assert doubling.judge.share_ns > 0
    assert doubling.ask(gate.FORGET) == b"-"


def test_inputs_that_are_no_tensors_are_those_of_the_call() -> None:
    """Also where they are equal to others or stand elsewhere, and as long as a task may have
    them."""
    seen: list[Any] = []

    def model(inputs: Any) -> list[torch.Tensor]:
        seen.append(inputs[1:])
        return inputs[:1]

    pair = Pair(model)
    longest = "a" * (PLAIN_BYTES - 100)
    some = [[3], [3.0], [4], [True], [-0.0], [0], [[3]], [[1, 2], 3], [[1], [2, 3]], [], [longest]]
    for values in some:
        layout = plan_layout([torch.zeros(4, 4), *values])
        pair.ask(gate.CALL, bytes(64), plain=gate.plain_text(layout, pair.layout))
    pair.close()
    assert json.dumps(seen) == json.dumps(some)


def test_inputs_as_in_the_layout_are_not_said_again() -> None:
    usual, same_again, other = (plan_layout([torch.zeros(4), n]) for n in (1, 1, True))
    assert gate.plain_text(same_again, usual) == b""
    assert gate.plain_text(other, usual) == b"[true]"


def test_outputs_are_given_up_but_for_those_that_are_named() -> None:
    alive = weakref.WeakSet[torch.Tensor]()

    def model(inputs: Any) -> list[torch.Tensor]:
        found = inputs[0] * inputs[1]
        alive.add(found)
        return [found]

    pair = Pair(model)
    for _ in range(3):
        pair.ask(gate.CALL, bytes(64))
    pair.ask(gate.FORGET, number=0b101)
    assert len(alive) == 2
    pair.ask(gate.CALL, bytes(64))
    pair.ask(gate.FORGET, number=1 << gate.CALL_BITS | 0b1)  # in the place of the second
    assert len(alive) == 2
    pair.ask(gate.FORGET)
    assert len(alive) == 2
    pair.close()


def test_a_packet_is_a_copy() -> None:
    """What a call's memory becomes later is not what was sent."""
    kept = torch.ones(4, 4)
    pair = Pair(lambda inputs: [kept])
    pair.judge.order(gate.CALL, 0, b"")
    pair.ours.send(bytes(64))
    pair.ours.recv(1, socket.MSG_PEEK)
    kept.zero_()
    assert pair.ours.recv(1 << 16) == torch.ones(4, 4).numpy().tobytes()
    pair.close()


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ([], "structure"),
        ([torch.zeros(4)], "shape"),
        ([torch.zeros(4, 4, dtype=torch.int32)], "dtype"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(found: list[torch.Tensor], kind: str) -> None:
    pair = Pair(lambda inputs: inputs[:1])
    door = gate.Gate(memory_files.create("gate", gate.gate_bytes(1)), 1)
    with pytest.raises(modules.LoadError) as error:
        door._show(found, pair.outputs, gate_links.Packets(pair.ours.fileno(), pair.layout, 1))
    assert error.value.kind == kind
    pair.close()


def test_on_every_core_the_worker_stands_still_while_no_clock_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While inputs are put there, and from its answer on. Of several threads the bill is the sum:
    the figure is the judge's clock."""
    steps: list[str] = []

    def hand_over(_: Any, input_set: Any) -> int:
        steps.append("inputs")
        return 0

    monkeypatch.setattr(bills, "stop", lambda root, stopped: steps.append("stop"))
    monkeypatch.setattr(bills, "go_on", lambda stopped: steps.append("go on"))
    monkeypatch.setattr(bills.BilledCaller, "_hand_over", hand_over)
    monkeypatch.setattr(bills.ClockedCaller, "_is_done", lambda _: not steps.append("done"))  # type: ignore[func-returns-value]
    caller = object.__new__(bills.ClockedCaller)
    caller._worker, caller._stopped = SimpleNamespace(root=1), set()  # type: ignore[assignment]
    caller._gate = SimpleNamespace(order=lambda *_: None)  # type: ignore[assignment]
    caller._order(gate.CALL)
    assert steps == ["stop", "inputs", "go on", "done", "stop"]
    assert caller._figure(elapsed_ns=15, bill_ns=40) == 15


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64, 4099])
def test_outputs_are_the_same_when_each_byte_is(size: int) -> None:
    """Also NaN, sizes that are no multiple of a word, and what lies beside an output."""
    leaf = {"offset": 64, "nbytes": size}
    one = bytearray(b"\xff" * (64 + size + 64))  # NaN in every floating-point format
    other = bytearray(one)
    other[0] = other[64 + size] = 0  # not of the output
    assert same(memoryview(one), memoryview(other), [leaf])
    for place in {0, size // 2, size - 1} if size else ():
        changed = bytearray(other)
        changed[64 + place] ^= 1
        assert not same(memoryview(one), memoryview(changed), [leaf])


def test_zeros_of_both_signs_are_not_the_same() -> None:
    one, other = (bytearray(torch.tensor([zero]).numpy().tobytes()) for zero in (0.0, -0.0))
    leaf = {"offset": 0, "nbytes": 4}
    assert not same(memoryview(one), memoryview(other), [leaf])


def test_every_output_is_compared() -> None:
    one = bytearray(72)
    other = bytearray(one)
    other[64] = 1
    leaves = [{"offset": 0, "nbytes": 5}, {"offset": 64, "nbytes": 8}]
    assert not same(memoryview(one), memoryview(other), leaves)
    assert same(memoryview(one), memoryview(other), leaves[:1])


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1, 4), (4,), (), (2, 1)])
def test_strides_of_contiguous_outputs_are_known(shape: tuple[int, ...]) -> None:
    dense = torch.empty(shape)
    assert are_dense(dense.stride(), shape)
    turned = torch.empty(shape[::-1]).permute(tuple(range(len(shape)))[::-1])
    assert are_dense(turned.stride(), shape) is turned.is_contiguous()
    assert not are_dense(torch.empty(5, 7)[:, :4].stride(), (5, 4))
