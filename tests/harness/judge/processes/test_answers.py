"""Whatever a worker says, the judge goes on: its nonsense is the candidate's fault and never the
evaluator's trouble."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.judge.errors import Interfered
from harness.judge.processes import answers
from harness.types import to_json
from harness.wire.launches import KERNELS, Captured
from tests.harness.conftest import Bench

TALK = """
import gc

from harness.wire import frames
from harness.workers import host
from harness.workers.error_report import ERROR_KINDS

talker = next(o for o in gc.get_objects() if isinstance(o, host.Host))


def say(text, code=frames.OK, values=(), sequence=0):
    data = text.encode("utf-8", "surrogatepass")
    talker._text[: len(data)] = data
    talker._sock.send(frames.Reply(code, sequence or talker._sequence, len(data), values).pack())


def order(**changes):
    import json

    asked = {"language": "cpp", "source": "int f;", "flags": [], "architecture": "", "names": [], **changes}
    say(json.dumps({k: v for k, v in asked.items() if v is not None}), frames.BUILD)
    return frames.receive(talker._sock)[0].get("error")


"""  # noqa: E501
DEEP = "'[' * 100_000"
FORWARD = "        y = torch.empty_like(x)\n"
SAID = {
    "deep JSON": f"say({DEEP})",
    "deep JSON that is complete": "say('[' * 900 + ']' * 900)",
    "deep objects": "say('{\"a\":' * 100_000)",
    "no JSON": "say('{]')",
    "an endless number": "say('9' * 5000)",
    "half a character": "say(chr(0xD800))",
    "a negative time": "say('null', values=(-1, 0, 0, 0, 0))",
    "a time of centuries": "say('null', values=(1 << 62, 0, 0, 0, 0))",
    "negative faults": "say('null', values=(1000, -5, 0, 0, 0))",
    "another command's number": "say('null', sequence=1 << 30)",
    ("counts of another type"): (
        'say(\'{"aten.mm": [1e999, null, "x"], "\\\\ud800": [1, 1, 1], "aten.add": [1, 2]}\')'
    ),
    "counts beyond numbers": "say('{\"aten.mm\": [' + '9' * 4000 + ', 1, 1]}')",
    "that nothing can be said here": "say('', frames.ERROR, (ERROR_KINDS.index('unfit'),))",
    "deaf": "while True:\n            say('x' * 100, frames.BUILD)",
}
ASKED = {
    "an order that is none": "say('[]', frames.BUILD)",
    "an order in deep JSON": f"say({DEEP}, frames.BUILD)",
    "an order of nothing": "say('', frames.BUILD)",
    "an order with a part missing": "order(names=None)",
    "an order with a part too many": "order(more=1)",
}
REFUSED = {
    "source as a number": "order(source=3)",
    "source nested": "order(source=[[[[{}]]]])",
    "flags that are none": "order(flags=[None])",
    "many flags": "order(flags=['-O2'] * 20_000)",
    "a language of its own": "order(language='cobol')",
    "an architecture of its own": "order(language='cuda', architecture='sm_90\\n')",
    "half a character in a flag": "order(flags=[chr(0xD800)])",
    ("half a character in a name"): (
        "order(language='cuda', architecture='sm_90', names=[chr(0xDFFF)])"
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_nonsense_beside_a_reply(bench: Bench, correct: str, name: str) -> None:
    assert FORWARD in correct
    found = bench.evaluate(TALK + correct.replace(FORWARD, f"{FORWARD}        {SAID[name]}\n"))
    allowed = {"incorrect", "reward_hack"} if name.startswith("counts") else {"reward_hack"}
    assert found.status in allowed, found.message
    json.dumps(to_json(found), ensure_ascii=False).encode()


@pytest.mark.parametrize("name", ASKED)
def test_nonsense_as_an_order(bench: Bench, correct: str, name: str) -> None:
    found = bench.evaluate(f"{TALK}{ASKED[name]}\n{correct}")
    assert (found.status, found.signals[0].name) == ("reward_hack", "cheat.protocol"), found.message


@pytest.mark.parametrize("name", REFUSED)
def test_an_order_that_no_compiler_takes(bench: Bench, correct: str, name: str) -> None:
    found = bench.evaluate(f"{TALK}raise ValueError({REFUSED[name]})\n{correct}")
    assert found.status == "build_failed", found.message
    assert "compile_error" in [s.name for s in found.signals]


def test_source_that_is_not_unicode_teaches(bench: Bench, correct: str) -> None:
    found = bench.evaluate(correct.replace("SOURCE = ", "SOURCE = '// one\\n// \\ud800\\n' + ", 1))
    assert found.status == "build_failed", found.message
    assert "line 2" in found.message
    assert "surrogate" in found.message


def test_the_compiler_s_words_may_be_in_any_script(bench: Bench, correct: str) -> None:
    found = bench.evaluate(
        correct.replace("float s = 0;", f"float s = 0;\n#error {chr(0x1F600) * 12_000}\n", 1)
    )
    assert found.status == "build_failed", found.message


def test_text_that_python_cannot_parse_for_its_depth(bench: Bench, correct: str) -> None:
    for deep in ("-" * 200_000 + "1", "a" + ".b" * 200_000, "(" * 5000):
        assert bench.evaluate(f"{correct}\nlater = lambda: {deep}\n").status == "invalid"


def test_the_next_candidate_is_judged_as_usual(bench: Bench, correct: str) -> None:
    assert bench.evaluate(correct).status == "correct"


KERNEL = {"name": "k", "num_warps": 4, "num_stages": 1}


@pytest.mark.parametrize(
    "told",
    [
        b"", b"\xff", b"[" * 100_000, b"{}", b"[3]", b"null", [{}], [KERNEL] * (KERNELS + 1),
        [{**KERNEL, "num_warps": 1e999}], [{**KERNEL, "num_warps": -4}],
        [{**KERNEL, "shared": -1024}], [{**KERNEL, "shared": 10**4000}], [{**KERNEL, "grid": [1]}],
        [{**KERNEL, "texts": {"../../sass": ""}}], [{**KERNEL, "texts": {"sass": 3}}],
        [{**KERNEL, "resources": "REG:" + "9" * 5000}],
        [{**KERNEL, "texts": {"amdgcn": "  .vgpr_count: " + "9" * 5000}}],
        [{**KERNEL, "unknown": 1}], [{**KERNEL, "cases": None}],
    ],
)  # fmt: skip
def test_kernels_that_cannot_be(told: Any) -> None:
    with pytest.raises(Interfered):
        answers.read_kernels(told if isinstance(told, bytes) else json.dumps(told).encode())


def test_kernels_that_can_be() -> None:
    told = json.dumps(
        [{**KERNEL, "name": "k\x1b[2J\ud800", "grid": [2, 1, 1], "texts": {"ptx": "a\n\tb"}}]
    ).encode()
    (found,) = answers.read_kernels(told)
    assert found == Captured("k\ufffd[2J\ufffd", 4, 1, grid=(2, 1, 1), texts={"ptx": "a\n\tb"})
