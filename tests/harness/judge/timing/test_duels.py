"""Candidates against each other in the same rounds, judged for real."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from harness.types import (
    Candidate,
    ComparisonRequest,
    EvaluationRequest,
    HeadToHead,
    Policy,
    Samples,
)
from tests.harness.conftest import Bench

EXPLOITS = Path(__file__).parents[3] / "exploits"
CALL = "        _lib.rows(x, self.weight, y, x.shape[0], x.shape[1])\n"
SUM = "for (int64_t j = 0; j < m; j++) s += x[i * m + j];"
# the gate through which calls are timed is made after all that is checked
TIMED = """
from harness.workers import gate

SEEN = []
made = gate.Gate.__init__


def noted(self, *arguments):
    made(self, *arguments)
    SEEN.append(1)


gate.Gate.__init__ = noted
"""
ENDS_BADLY = """
from harness.workers import gate

serve = gate.Gate.serve


def one_word_more(*arguments):
    serve(*arguments)
    raise ValueError("one word more")


gate.Gate.serve = one_word_more
"""
BEGINS_BADLY = """
from harness.workers import gate, modules


class Never(gate.Gate):
    def __init__(self, *arguments):
        raise {error}


gate.Gate = Never
"""
SAYS = ("ValueError('no calls today')", "modules.LoadError('task', 'no inputs fit')")
# tells a process that is checked from one that is timed
STAGE = """
import gc
import secrets

from harness.workers import candidate

found = next(each for each in gc.get_objects() if isinstance(each, candidate.CandidateHost))
CHECKED = found._recorder is not None
"""
ASKS = """
        if not CHECKED:
            try:
                load_cpp(f'extern "C" void f{secrets.token_hex(8)}(float* x) {{ x[0] = 1; }}')
            except RuntimeError:
                pass
"""
BY_VALUE = """
        wide = bool(x.abs().amax() > 15)
        if wide not in self.kernels:
            self.kernels[wide] = load_cpp(SOURCE, defines={"WIDE": wide})
        _lib = self.kernels[wide]
"""
# a thread of one waits on a word of a library, another one asks for words that somebody waits on
TELLS = """
import ctypes
import mmap
import os
import threading

FUTEX, WAIT, WAKE, WORDS, SAID = 202, 0, 1, 1 << 10, 0x2A7
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), os.O_RDONLY)
START = libc.mmap(None, ctypes.c_size_t(4 * WORDS), mmap.PROT_READ, mmap.MAP_SHARED, fd, None)
os.close(fd)


def call(number, operation, value):
    word = ctypes.c_void_p(START + 4 * number)
    return libc.syscall(FUTEX, word, operation, ctypes.c_uint(value), None, None, 0)


def wait():
    while True:
        call(SAID, WAIT, ctypes.c_uint.from_address(START + 4 * SAID).value)


for number in range(WORDS):
    if call(number, WAKE, 1) > 0:
        raise RuntimeError(f"told {number:#x}")
threading.Thread(target=wait, daemon=True).start()
"""
AGAIN = (
    "for (int64_t r = 0; r < 3; r++) for (int64_t j = 0; j < m; j++) { s += std::tanh(x[i * m + "
    "j]) * 1e-30f; }"
)


def compare(bench: Bench, *sources: str, cases: tuple[str, ...] = ("small",)) -> HeadToHead:
    request = ComparisonRequest(tuple(Candidate(source, "cpp") for source in sources), cases=cases)
    return bench.run(bench.executor.compare(bench.task, request, "cpu"))


@pytest.mark.quiet
def test_a_true_step_is_seen_and_equal_kernels_are_not_called_different(
    bench: Bench, correct: str
) -> None:
    slow = correct.replace(SUM, f"{SUM} {AGAIN}")
    found = compare(bench, slow, correct, f"{correct}\n# the same again\n")
    assert [e.status for e in found.evaluations] == ["correct"] * 3
    assert found.processes >= 3
    for number in (1, 2):
        step = found.duel(number, 0)
        assert step is not None
        assert step.ratio > 1.3
        assert step.verdict in ("faster", "inconclusive")
    equal = found.duel(2, 1)
    assert equal is not None
    assert equal.verdict in ("equivalent", "inconclusive")
    assert [case.baseline in case.baselines for e in found.evaluations for case in e.cases] == [
        True
    ] * 3


def test_who_is_wrong_only_while_timed_is_found_others_are_compared(
    bench: Bench, correct: str
) -> None:
    counted = "        self.calls = getattr(self, 'calls', 0) + len(SEEN)\n"
    lazy = correct.replace(CALL, f"{counted}        if self.calls < 20:\n    {CALL}") + TIMED
    found = compare(bench, lazy, correct, f"{correct}\n# the same again\n")
    assert found.evaluations[0].status == "incorrect"
    assert "while it was timed" in found.evaluations[0].message
    assert [e.status for e in found.evaluations[1:]] == ["correct", "correct"]
    assert found.duel(1, 0) is None
    assert found.duel(2, 1) is not None


@pytest.mark.parametrize("text", [ENDS_BADLY, *(BEGINS_BADLY.format(error=e) for e in SAYS)])
def test_who_fails_when_calls_begin_or_end_is_lost_alone(
    bench: Bench, correct: str, text: str
) -> None:
    found = compare(bench, correct, correct + text, f"{correct}\n# the same again\n")
    assert [e.status for e in found.evaluations] in (
        ["correct", "crashed", "correct"],
        ["correct", "reward_hack", "correct"],
    )
    assert found.duel(2, 0) is not None
    alone = bench.evaluate(correct + text, "time", "search")
    assert alone.status in ("crashed", "reward_hack")
    assert alone.seconds < 60


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls the kernel by number")
def test_no_process_of_one_candidate_tells_anything_to_another(bench: Bench, correct: str) -> None:
    found = compare(bench, correct + TELLS, f"{correct}{TELLS}# the same again\n")
    assert [e.status for e in found.evaluations] == ["correct"] * 2, found.evaluations[0].message
    assert found.duel(1, 0) is not None


def test_what_was_verified_before_is_not_verified_again(bench: Bench, correct: str) -> None:
    """Its timed outputs are, so that one which is wrong by then is found."""
    fresh, again = f"{correct}\n# another text\n", f"{correct}\n# and one more\n"
    counted = "        self.calls = getattr(self, 'calls', 0) + len(SEEN)\n"
    lazy = fresh.replace(CALL, f"{counted}        if self.calls < 20:\n    {CALL}") + TIMED
    for source in (fresh, lazy):
        bench.evaluate(source, "verify")
    found = compare(bench, fresh, again, lazy)
    assert [e.status for e in found.evaluations] == ["correct", "correct", "incorrect"]
    assert "while it was timed" in found.evaluations[2].message
    verified = [r.data for e in found.evaluations for r in e.stages if r.stage == "verify"]
    known = [data.get("known", False) for data in verified]
    assert known == [True, False, True]
    first, second = (e.cases[0] for e in found.evaluations[:2])
    assert (first.error, first.tolerance) == (second.error, second.tolerance)
    assert found.duel(1, 0) is not None


def test_a_meeting_has_the_builds_of_the_processes_that_were_checked(
    bench: Bench, correct: str
) -> None:
    """Whichever of its own processes ends early, and whatever that one has met; new ones have no
    place there."""
    init = "        super().__init__()\n"
    head, forward, rest = correct.partition("        y = torch.empty_like(x)\n")
    assert init in head
    fails = correct.replace(init, f"{init}        assert CHECKED\n") + STAGE
    asks = f"{head}{ASKS}{forward}{rest}{STAGE}"
    lazy = f"{head}{BY_VALUE}{forward}{rest}".replace(init, f"{init}        self.kernels = {{}}\n")
    plain = f"{correct}\n# beside lazy ones\n"
    sources = (fails, asks, lazy, plain)
    policy = Policy(library_calls="allow")
    for source in sources:
        alone = bench.evaluate(source, policy=policy)
        assert alone.status == "correct", alone.message
    request = ComparisonRequest(tuple(Candidate(s, "cpp") for s in sources), policy, 0.5)
    found = bench.run(bench.executor.compare(bench.task, request, "cpu"))
    statuses = [e.status for e in found.evaluations]
    assert statuses == ["crashed", "build_failed", "correct", "correct"]
    assert "for the first time in a timed process" in found.evaluations[1].message
    assert all(e.stages[1].data["known"] for e in found.evaluations)
    assert found.duel(3, 2) is not None


def test_one_that_leaves_the_work_to_the_framework_has_no_duel(bench: Bench, correct: str) -> None:
    helped = correct.replace("return y\n", "return y + 0\n")
    found = compare(bench, helped, correct)
    assert [e.status for e in found.evaluations] == ["needs_review", "correct"]
    assert found.status == "needs_review"
    assert found.duels == ()


def test_requests_that_compare_nothing_are_refused(correct: str) -> None:
    one = Candidate(correct, "cpp")
    with pytest.raises(ValueError, match="2 to 8"):
        ComparisonRequest((one,))
    with pytest.raises(ValueError, match="same text"):
        ComparisonRequest((one, one))
    with pytest.raises(ValueError, match="languages"):
        ComparisonRequest((one, Candidate(correct, "triton")))


def test_an_ablation_is_timed_although_it_is_wrong(bench: Bench, correct: str) -> None:
    found = bench.evaluate(
        correct.replace("std::tanh(x[i * m + j])", "x[i * m + j]"), "time", "ablation"
    )
    assert (found.status, found.fitness, found.eligible) == ("incorrect", None, False)
    assert found.message.startswith("an ablation, no result")
    assert "wrong.values" in [s.name for s in found.signals]
    assert all(
        c.latency_us and c.speedup and c.verdict is None and not c.correct for c in found.cases
    )


def test_what_was_left_open_before_is_left_open_of_what_is_joined(
    bench: Bench, correct: str
) -> None:
    rounds = {"small": {"eager": (((300.0, 1.0),) * 20,) * 9}}
    for opened in (0.0, 5000.0):
        earlier = Samples(rounds, 9, {"small": {"eager": opened}} if opened else {})
        request = EvaluationRequest(
            Candidate(correct, "cpp"), "search", "time", cases=("small",), earlier=earlier
        )
        found = bench.run(bench.executor.evaluate(bench.task, request, "cpu"))
        (case,) = found.cases
        assert case.speedup is not None
        assert case.speedup > 100
        assert case.open_us is not None
        assert (case.open_us >= 5000) is bool(opened)
        if opened:
            assert case.verdict == "inconclusive"
            assert any(signal.name == "clock_open" for signal in found.signals)


def test_who_leaves_updates_out_while_it_is_timed_is_found(bench: Bench) -> None:
    corpus = EXPLOITS / "tasks" / "averaged.py"
    task = bench.run(bench.executor.open_task(corpus.read_text(), str(corpus), "cpu", timed=False))
    texts = (
        (EXPLOITS / "own" / "e50_state_left_out_while_timed.py").read_text(),
        (EXPLOITS / "honest" / "keeps_its_averages.py").read_text(),
        (EXPLOITS / "honest" / "averages_assigned_anew.py").read_text(),
    )
    candidates = tuple(Candidate(text, "cpp") for text in texts)
    request = ComparisonRequest(candidates, policy=Policy(library_calls="allow"))
    found = bench.run(bench.executor.compare(task, request, "cpu"))
    assert [e.status for e in found.evaluations] == ["incorrect", "correct", "correct"]
    assert "the state after the timed calls is wrong" in found.evaluations[0].message
    assert found.duel(2, 1) is not None
