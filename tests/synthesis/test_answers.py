"""What models answer, in the shapes in which they do."""

from __future__ import annotations

import json

import pytest

from kevolve_mcp.synthesis.authors import InvalidAnswer, Words, check_source, read_answer

KERNEL = '''import torch
from harness.native import load_cpp

TUNABLES = {"UNROLL": [1, 2]}
PARAMS = {"UNROLL": 1}
SOURCE = r"""
extern "C" void f(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) { y[i] = x[i]; } }
"""
_lib = load_cpp(SOURCE)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
'''  # noqa: E501
COMPUTED = KERNEL.replace('{"UNROLL": 1}', "dict(UNROLL=1)")
UNHASHABLE = KERNEL.replace('{"UNROLL": 1}', "{[1]: 2}")
WORDS = {"hypothesis": "fewer passes", "predicted_speedup": 1.2, "rationale": "memory bound"}
META = json.dumps(WORDS)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{META}\n```\n```python\n{KERNEL}```",
        f"```python\n{KERNEL}```\n\n```json\n{META}\n```",
        f"Here is my kernel.\n\n```JSON\n{META}\n```\nThe file:\n~~~py\n{KERNEL}~~~\nGood luck!",
        f"{META}\n\n````python\n{KERNEL}````",
        json.dumps({**WORDS, "source": KERNEL}),
        "```json\n" + json.dumps({**WORDS, "code": KERNEL}) + "\n```",
        (
            "**Hypothesis:** fewer passes\n- Predicted speedup: about 1.2x\n"
            f"**Rationale**: memory bound\n```\n{KERNEL}```"
        ),
        (
            f"<think>```python\nclass ModelNew: pass\n``` no, better:</think>\n{META}\n```python\n"
            f"{KERNEL}```"
        ),
        (
            f"First `x = 1`:\n```cpp\nint main() {{}}\n```\n{META}\n```python\nx = 1\n```\n"
            f"```python\n{KERNEL}```"
        ),
    ],
)
def test_one_answer_in_many_shapes(text: str) -> None:
    written = read_answer(text, "cpp")
    assert written.source == KERNEL
    assert written.words == Words("fewer passes", 1.2, "memory bound")


def test_a_bare_file_is_an_answer() -> None:
    assert read_answer(KERNEL, "cpp").source == KERNEL
    assert read_answer(KERNEL, "cpp").words == Words()


def test_a_block_that_was_not_closed_is_read_to_its_end() -> None:
    assert read_answer(f"```python\n{KERNEL}", "cpp").source == KERNEL


@pytest.mark.parametrize(
    "value", ["soon", "20%", True, -1, 0, float("nan"), float("inf"), 1e300, None, [1.2]]
)
def test_a_prediction_that_is_no_factor_is_none(value: object) -> None:
    text = (
        f"```json\n{json.dumps({'hypothesis': 'h', 'predicted_speedup': value})}\n```\n```python\n"
        f"{KERNEL}```"
    )
    assert read_answer(text, "cpp").words == Words("h")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("I cannot help with that.", "no candidate file"),
        ("```cpp\nint main() {}\n```", "no candidate file"),
        ("{}", "no candidate file"),
        (f"```python\n{KERNEL[:-20]}(\n```", "not valid Python: line"),
        ("```python\nx = 1\n```", "neither class ModelNew"),
        (
            "```python\nclass ModelNew:\n    pass\n```",
            "language is cpp: the candidate must use load_cpp",
        ),
        ("```python\nimport triton\nclass ModelNew:\n    pass\n```", "but it uses triton"),
        (f"```python\n{COMPUTED}```", "PARAMS must be a literal"),
        (f"```python\n{UNHASHABLE}```", "PARAMS must be a literal"),
    ],
)
def test_what_cannot_be_used_says_why(text: str, said: str) -> None:
    with pytest.raises(InvalidAnswer, match=said):
        read_answer(text, "cpp")


def test_each_language_has_its_mark_and_others_have_none() -> None:
    check_source("import triton.language as tl\nclass ModelNew: ...", "triton")
    check_source(
        "from harness.native import load_cuda\nlib = load_cuda('')\ndef kernel(x): return x", "cuda"
    )
    check_source("class ModelNew: ...", "a language of somebody else")
    with pytest.raises(InvalidAnswer, match="triton"):
        check_source("class ModelNew: ...", "triton")
