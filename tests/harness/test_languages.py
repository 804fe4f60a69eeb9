"""Every language keeps the contract; and what Triton's words mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.languages import LANGUAGES, Cpp, Language, Triton
from harness.languages.testing import LanguageConformance
from harness.types import Target

DATA = Path(__file__).parents[1] / "data"
TRITON = (DATA / "triton" / "add.py").read_text()


class TestCpp(LanguageConformance):
    def language(self) -> Language:
        return Cpp()

    def candidate(self) -> str:
        return (DATA / "candidates" / "correct.py").read_text()


class TestTriton(LanguageConformance):
    def language(self) -> Language:
        return Triton()

    def candidate(self) -> str:
        return TRITON


def test_every_language_is_under_the_contract() -> None:
    assert {type(language) for language in LANGUAGES.values()} == {Cpp, Triton}
    assert all(name == language.name for name, language in LANGUAGES.items())


EXCERPT = "at 4:18:\ndef add(x):\n    i = tl.arange(0, 8)\n                  ^\n"


@pytest.mark.parametrize(
    ("log", "signal", "said"),
    [
        (f"CompilationError: {EXCERPT}NameError('nothing is not defined')", "undeclared_name", "kernel line 4: NameError: nothing is not"),
        (f"CompilationError: {EXCERPT}ValueError('Cannot make_shape_compatible: incompatible dimensions at index 0: 512 and 64')",
         "shape_mismatch", "512 and 64"),
        (f"CompilationError: {EXCERPT}arange's range must be a power of 2", "shape_mismatch", "power of 2"),
        (f"CompilationError: {EXCERPT}type fp8e4nv not supported in this architecture.", "unsupported_instruction", "fp8e4nv"),
        (f"CompilationError: {EXCERPT}Unsupported ptr type <['512'], int32> in `tl.load`", "type_mismatch", "ptr type"),
        ("OutOfResources: out of resource: shared memory, Required: 655360, Hardware limit: 166912. Reducing block sizes helps.",
         "resource_limit", "655360"),
        ("candidate.py:9:4: error: operation needs sm_90 or newer, not supported on this target\nRuntimeError: PassManager::run failed",
         "unsupported_instruction", "not supported on this target"),
        ("PTXASError: PTXAS error: ptxas error : Entry function 'k' uses too much shared data", "resource_limit", "too much shared"),
        ("RuntimeError: PassManager::run failed", "", "PassManager"),
    ],
)  # fmt: skip
def test_what_triton_says_becomes_a_signal(log: str, signal: str, said: str) -> None:
    (found,) = Triton().read_log(log)
    assert found.name == (f"compile_error.{signal}" if signal else "compile_error")
    assert said in found.message


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("tl.load(x + i, mask=inside)", "tl.load(x + i, mask=inside).to(tl.bfloat16)", "tl.bfloat16"),
        ("tl.load(x + i, mask=inside)", "tl.load(x + i, mask=inside).to(triton.language.float8e5)", "float8e5"),
        ("import triton.language as tl", "import triton.language as tl\nfrom triton.language import bfloat16", "bfloat16"),
        (
            "import triton.language as tl",
            "import triton.language as tl\nfrom triton.language.extra import libdevice",
            "libdevice",
        ),
        ("tl.load(x + i, mask=inside)", 'tl.inline_asm_elementwise("", "=r", [x], tl.float32, True, 1)', "inline_asm"),
    ],
)
def test_what_the_interpreter_cannot_do_is_refused_there_and_nowhere_else(old: str, new: str, word: str) -> None:
    text = TRITON.replace(old, new)
    assert text != TRITON
    assert word in Triton().unfit(text, Target("cpu"), ())
    assert Triton().unfit(text, Target("cuda", "sm_90"), ()) == ""


def test_narrow_types_of_the_host_code_and_in_comments_are_no_reason() -> None:
    text = TRITON + '\nTABLE = {torch.bfloat16: "two bytes"}  # not tl.bfloat16\n"""tl.float8e5"""\n'
    assert Triton().unfit(text, Target("cpu"), ("float32", "float16")) == ""
    assert "bfloat16 tensors" in Triton().unfit(TRITON, Target("cpu"), ("float32", "bfloat16"))
