"""Every way to be wrong, to break or to misbehave gets its status and its signal, and the next
candidate is judged as usual."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from harness.judge.processes import reaper
from harness.types import Policy
from tests.harness.conftest import Bench

KERNEL = "_lib.rows(x, self.weight, y, x.shape[0], x.shape[1])"
BODY = f"        y = torch.empty_like(x)\n        {KERNEL}\n        return y\n"
LOOP = "y[i * m + j] = std::tanh(x[i * m + j]) * w[j] + s;"
SUM = "s += x[i * m + j];"


def forward(lines: str) -> tuple[str, str]:
    """A replacement of the forward's body."""
    return BODY, "".join(f"        {line}\n" for line in lines.strip().splitlines())


PREPEND = ""  # with this as the old text, the new one goes to the top of the file

CASES = {
    # structure
    "syntax error": ("invalid", "structure.syntax_error", "class ModelNew", "class ModelNew("),
    "no entry point": ("invalid", "structure.no_entry_point", "class ModelNew", "class Other"),
    "constructor": ("invalid", "structure.constructor_mismatch", "def __init__(self, width):",
                    "def __init__(self):\n        width = 96"),
    "parameters": ("invalid", "structure.parameter_mismatch", "torch.zeros(width)",
                   "torch.zeros(width + 1)"),
    # policy
    "framework helps": ("needs_review", "policy.library_calls",
                        *forward(f"y = torch.empty_like(x)\n{KERNEL}\nreturn y + 0")),
    "compiled by the framework": ("invalid", "policy.library_calls",
                                  *forward("return torch.compile(torch.tanh)(x)")),
    "compiled as a decorator says": (
        "invalid", "policy.library_calls", "class ModelNew",
        "@torch.compile(dynamic=False)\ndef work(x):\n    return x\n\n\nclass ModelNew"),
    # compiler
    "undeclared": ("build_failed", "compile_error.undeclared_name", "float s = 0;",
                   "float s = start;"),
    "header": ("build_failed", "compile_error.missing_header", "#include <cmath>",
               "#include <no_such_header.h>"),
    "c++ syntax": ("build_failed", "compile_error.syntax", "float s = 0;", "float s = ;"),
    "types": ("build_failed", "compile_error.type_mismatch", "float s = 0;",
              'float s = 0; float* q = "text";'),
    # crashes
    "writes its input": ("crashed", "crash.segmentation_fault", LOOP,
                         f"{{ ((float*)x)[0] = 1; {LOOP} }}"),
    "abort": ("crashed", "crash.abort", "float s = 0;", "float s = 0; __builtin_abort();"),
    "divides by zero": ("crashed", "crash.arithmetic", "float s = 0;",
                        "float s = 0; volatile int64_t z = 0; s = n / z;"),
    "illegal instruction": ("crashed", "crash.illegal_instruction", "float s = 0;",
                            'float s = 0; __asm__ volatile("ud2");'),
    "raises": ("crashed", "crash.exception", *forward("raise RuntimeError('nothing works')")),
    "exits early": ("crashed", "crash.exit", *forward("import os\nos._exit(0)")),
    "kills itself": ("crashed", "crash.exit", *forward("import os\nos.kill(os.getpid(), 9)")),
    "killed by what it started": ("crashed", "crash.exit",
                                  *forward("import os\nos.system('kill -9 -1')")),
    "bad_alloc": ("crashed", "out_of_memory", "float s = 0;",
                  "float s = 0; volatile char* q = new char[1LL << 45]; q[0] = 1;"),
    "exhausts memory": ("crashed", "out_of_memory", *forward("return torch.empty(1 << 40)")),
    "prints gigabytes": ("crashed", "output_flood",
                         *forward("while True:\n    print('x' * 100000)")),
    "fork bomb": ("crashed", "crash.exception", *forward("import os\nwhile True:\n    os.fork()")),
    "fills the disk": ("crashed", "crash.exception",
                       *forward("f = open('filling', 'wb')\nwhile True:\n"
                                "    f.write(bytes(1 << 20))")),
    "closes descriptors": ("crashed", "crash.exit",
                           *forward("import os\nos.closerange(3, 4096)\nreturn x")),
    "hangs": ("timed_out", "timeout.run", *forward("while True:\n    pass")),
    "forges a reply": (
        "reward_hack",
        "cheat.protocol",
        *forward("import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'OK')\n"
                 "    except OSError:\n        pass\nreturn x"),
    ),
    # wrong results
    "structure": ("incorrect", "wrong.structure", *forward("return [x, x]")),
    "in a tuple": ("incorrect", "wrong.structure",
                   *forward(f"y = torch.empty_like(x)\n{KERNEL}\nreturn (y,)")),
    "shape": ("incorrect", "wrong.shape",
              *forward(f"y = torch.empty_like(x)\n{KERNEL}\nreturn y[:1]")),
    "dtype": ("incorrect", "wrong.dtype",
              *forward(f"y = torch.empty_like(x)\n{KERNEL}\nreturn y.double()")),
    "values": ("incorrect", "wrong.values", "* w[j] + s;", "* w[j] - s;"),
    "tail": ("incorrect", "wrong.tail", "for (int64_t j = 0; j < m; j++) y",
             "for (int64_t j = 0; j < m - 8; j++) y"),
    "one row": ("incorrect", "wrong.rows", "for (int64_t i = 0; i < n; i++) {",
                "for (int64_t i = 0; i < n; i++) { if (i == 3) continue;"),
    "nothing written": ("incorrect", "wrong.uninitialized", *forward("return torch.empty_like(x)")),
    "not a number": ("incorrect", "wrong.non_finite", LOOP,
                     "y[i * m + j] = std::sqrt(-1.0f - s * s);"),
    "low precision": ("incorrect", "wrong.precision", SUM, "s += (float)(_Float16)x[i * m + j];"),
    "packed once": (
        "incorrect",
        "wrong.stale_parameters",
        *forward(
            "if not hasattr(self, 'packed'):\n    self.packed = self.weight.detach().clone()\n"
            + "y = torch.empty_like(x)\n"
            + KERNEL.replace("self.weight", "self.packed")
            + "\nreturn y"
        ),
    ),
    "one output for all": (
        "incorrect",
        "wrong.",
        *forward("if not hasattr(self, 'y') or self.y.shape != x.shape:\n"
                 f"    self.y = torch.empty_like(x)\ny = self.y\n{KERNEL}\nreturn y"),
    ),
    "five outputs in turn": (
        "incorrect",
        "wrong.held_output",
        *forward("if not hasattr(self, 'ring'):\n"
                 "    self.ring = [torch.empty_like(x) for _ in range(5)]\n"
                 f"self.ring.append(self.ring.pop(0))\ny = self.ring[0]\n{KERNEL}\nreturn y"),
    ),
    "zeros": ("incorrect", "wrong.", *forward("return torch.zeros_like(x)")),
    "lazy tensor": (
        "incorrect",
        "wrong.structure",
        *forward("class Lazy(torch.Tensor):\n    pass\nreturn x.clone().as_subclass(Lazy)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict(bench: Bench, correct: str, name: str) -> None:
    status, signal, old, new = CASES[name]
    assert old in correct
    found = bench.evaluate(correct.replace(old, new, 1))
    assert found.status == status, found.message
    # whichever limit its processes come to first
    either = (signal, "out_of_memory") if name == "fork bomb" else (signal,)
    assert any(s.name.startswith(either) for s in found.signals), found.signals
    assert found.message
    assert found.fitness == 0.0
    assert not found.eligible


def test_wrong_elements_are_placed_and_told_on_inputs_that_judge_nobody(
    bench: Bench, correct: str
) -> None:
    _, _, old, new = CASES["tail"]
    told = []
    for _ in range(2):
        found = bench.evaluate(correct.replace(old, new, 1))
        judged, _, shown = found.message.partition("; on inputs drawn for this message alone, ")
        # the same sets judge the next candidates
        assert "all of columns 88..95, the last 8 along axis 1 of length 96" in judged
        assert not re.search(r"expected -?\d|got ", judged)
        assert re.match(r"output 0: \[\d+, (8[89]|9\d)\] expected \S+, got \S+, off by ", shown)
        assert "(allowed " in shown
        wrong = next(c for c in found.cases if not c.correct)
        assert not re.search(r"expected -?\d|got ", wrong.detail)
        rows = next(s.log for s in found.stages if s.stage == "verify")
        assert rows.startswith("case ")
        assert re.search(
            r"row \[\d+\], elements 88 to 95 of 96 .*:\n  expected .*\n  computed ", rows
        )
        assert re.search(r"  input 0 \w+\[\d+, 96\] -?\d", rows)
        told.append(shown + rows)
    assert told[0] != told[1]


def test_where_parameters_are_stale_no_values_are_told(bench: Bench, correct: str) -> None:
    """The set to be shown is drawn before any change, where this kernel is right."""
    _, _, old, new = CASES["packed once"]
    found = bench.evaluate(correct.replace(old, new, 1))
    assert "off by" in found.message
    assert "drawn for this message" not in found.message
    assert not any(s.log for s in found.stages if s.stage == "verify")


def test_who_is_wrong_in_a_manner_of_calling_is_told_of_no_other_inputs(
    bench: Bench, correct: str
) -> None:
    """Inputs of other families were right before, called as usual."""
    wrong = BODY.replace("return y", "return y if self.training else -y")
    found = bench.evaluate(correct.replace(BODY, wrong, 1))
    assert found.status == "incorrect"
    assert "called in evaluation mode" in found.message
    assert "right with" not in found.message


def test_the_correct_candidate_is_correct_after_all_of_that(bench: Bench, correct: str) -> None:
    found = bench.evaluate(correct)
    assert found.status == "correct", found.message
    assert found.fitness is None  # nothing was timed
    assert all(
        c.correct and c.error is not None and c.error <= (c.tolerance or 0) for c in found.cases
    )
    assert all(c.bitwise_reproducible for c in found.cases)


def test_a_candidate_that_deletes_its_folder_harms_nobody(bench: Bench, correct: str) -> None:
    found = bench.evaluate(
        correct.replace(
            "class ModelNew",
            "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nclass ModelNew",
        )
    )
    assert found.status == "correct", found.message
    assert bench.evaluate(correct).status == "correct"


def test_what_a_candidate_started_dies_with_it(bench: Bench, correct: str) -> None:
    marker = "kevolve-orphan-marker"
    orphan = (
        "import os, sys\nif os.fork() == 0:\n    if os.fork() == 0:\n"
        "        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(300)', "
        f"'{marker}'])\n    os._exit(0)\n"
    )
    found = bench.evaluate(orphan + correct)
    assert found.status == "correct", found.message
    assert not _running(marker)


def _running(marker: str) -> bool:
    from pathlib import Path

    for _ in range(20):
        lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
        if not any(marker.encode() in line for line in lines):
            return False
        time.sleep(0.1)
    return True


def test_a_policy_can_allow_or_reject_library_calls(bench: Bench, correct: str) -> None:
    build = '_lib = load_cpp(SOURCE, defines={"UNROLL": PARAMS["UNROLL"]})'
    framework = "        return torch.tanh(x) * self.weight + x.sum(dim=-1, keepdim=True)\n"
    assert build in correct
    only_framework = correct.replace(build, "").replace(BODY, framework)
    helped = bench.evaluate(only_framework)
    assert (helped.status, helped.signals[0].name) == ("needs_review", "policy.no_native_kernel")
    assert bench.evaluate(only_framework, policy=Policy(library_calls="allow")).status == "correct"
    assert bench.evaluate(only_framework, policy=Policy(library_calls="reject")).status == "invalid"


def test_bitwise_is_a_gate_where_it_is_asked_for(bench: Bench, correct: str) -> None:
    found = bench.evaluate(correct, policy=Policy(tolerance="bitwise"))
    assert found.status == "incorrect"
    assert found.signals[0].name == "wrong.not_bitwise"


def test_a_plain_function_is_a_candidate_only_without_parameters(bench: Bench) -> None:
    found = bench.evaluate("def kernel(x):\n    return x\n")
    assert (found.status, found.signals[0].name) == ("invalid", "structure.parameter_mismatch")


def test_an_evaluation_leaves_no_descriptor_open(
    bench: Bench, correct: str, judge_cache: Path
) -> None:
    def is_judge(process: str) -> bool:
        command = Path(f"/proc/{process}/cmdline").read_text()
        return "harness.judge.main" in command and repr(str(judge_cache.resolve())) in command

    def held() -> int:
        """Descriptors of the judge, which is not the only process that tests have started."""
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        judges = [child for child in children if is_judge(child)]
        assert judges
        return sum(len(os.listdir(f"/proc/{judge}/fd")) for judge in judges)

    found = []
    for number in range(4 * reaper.MOST):
        assert bench.evaluate(f"# {number}\n{correct}").status == "correct"
        time.sleep(0.2)  # the worker for the next one is there as well
        found.append(held())
    # some that ended are still held, and what other tests have left is closed by and by: the most
    # of several rounds moves by three, where one descriptor at a time would be eight more
    assert max(found[-reaper.MOST :]) - max(found[: 2 * reaper.MOST]) < 6, found
