"""Every language keeps the contract; and what the words of the GPU compilers mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.languages import LANGUAGES, Cpp, Cuda, Language, Triton
from harness.languages.testing import LanguageConformance
from harness.types import Target

DATA = Path(__file__).parents[2] / "data"
TRITON = (DATA / "triton" / "add.py").read_text()


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "# coding: raw_unicode_escape\n# \\u000akernel = abs\nkernel = len\n",
            "raw_unicode_escape",
        ),
        (
            "\r# coding: raw_unicode_escape\n# \\u000akernel = abs\nkernel = len\n",
            "raw_unicode_escape",
        ),
        ("# coding: nonsense\nkernel = len\n", "nonsense"),
        ("kernel = len  # \ud800\n", "UTF-8"),
    ],
    ids=["escapes", "escapes in line two", "unknown", "surrogate"],
)
def test_what_a_file_would_be_read_as_otherwise_is_refused(
    language: Language, source: str, said: str
) -> None:
    refused = language.police(source)
    assert refused is not None
    assert refused.name == "structure.syntax_error"
    assert said in refused.message
    for name in ("utf-8", "utf8", "UTF-8-sig"):
        assert language.police(f"# coding: {name}\nkernel = len\n") is None


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


class TestCuda(LanguageConformance):
    def language(self) -> Language:
        return Cuda()

    def candidate(self) -> str:
        return (DATA / "cuda" / "rmsnorm.py").read_text()


def test_every_language_is_under_the_contract() -> None:
    assert {type(language) for language in LANGUAGES.values()} == {Cpp, Triton, Cuda}
    assert all(name == language.name for name, language in LANGUAGES.items())


EXCERPT = "at 4:18:\ndef add(x):\n    i = tl.arange(0, 8)\n                  ^\n"


@pytest.mark.parametrize(
    ("log", "signal", "said"),
    [
        (f"CompilationError: {EXCERPT}NameError('nothing is not defined')", "undeclared_name",
         "kernel line 4: NameError: nothing is not"),
        (f"CompilationError: {EXCERPT}ValueError('Cannot make_shape_compatible: incompatible "
         "dimensions at index 0: 512 and 64')",
         "shape_mismatch", "512 and 64"),
        (f"CompilationError: {EXCERPT}arange's range must be a power of 2", "shape_mismatch",
         "power of 2"),
        (f"CompilationError: {EXCERPT}type fp8e4nv not supported in this architecture.",
         "unsupported_instruction", "fp8e4nv"),
        (f"CompilationError: {EXCERPT}Unsupported ptr type <['512'], int32> in `tl.load`",
         "type_mismatch", "ptr type"),
        ("OutOfResources: out of resource: shared memory, Required: 655360, Hardware limit: "
         "166912. Reducing block sizes helps.",
         "resource_limit", "655360"),
        ("candidate.py:9:4: error: operation needs sm_90 or newer, not supported on this target\n"
         "RuntimeError: PassManager::run failed",
         "unsupported_instruction", "not supported on this target"),
        ("PTXASError: PTXAS error: ptxas error : Entry function 'k' uses too much shared data",
         "resource_limit", "too much shared"),
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
        (
            "tl.load(x + i, mask=inside)",
            "tl.load(x + i, mask=inside).to(tl.bfloat16)",
            "tl.bfloat16",
        ),
        (
            "tl.load(x + i, mask=inside)",
            "tl.load(x + i, mask=inside).to(triton.language.float8e5)",
            "float8e5",
        ),
        (
            "import triton.language as tl",
            "import triton.language as tl\nfrom triton.language import bfloat16",
            "bfloat16",
        ),
        (
            "import triton.language as tl",
            "import triton.language as tl\nfrom triton.language.extra import libdevice",
            "libdevice",
        ),
        (
            "tl.load(x + i, mask=inside)",
            'tl.inline_asm_elementwise("", "=r", [x], tl.float32, True, 1)',
            "inline_asm",
        ),
    ],
)
def test_what_the_interpreter_cannot_do_is_refused_there_and_nowhere_else(
    old: str, new: str, word: str
) -> None:
    text = TRITON.replace(old, new)
    assert text != TRITON
    assert word in Triton().unfit(text, Target("cpu"), ())
    assert Triton().unfit(text, Target("cuda", "sm_90"), ()) == ""


def test_narrow_types_of_the_host_code_and_in_comments_are_no_reason() -> None:
    text = (
        TRITON + '\nTABLE = {torch.bfloat16: "two bytes"}  # not tl.bfloat16\n"""tl.float8e5"""\n'
    )
    assert Triton().unfit(text, Target("cpu"), ("float32", "float16")) == ""
    assert "bfloat16 tensors" in Triton().unfit(TRITON, Target("cpu"), ("float32", "bfloat16"))


@pytest.mark.parametrize(
    ("log", "signal", "said"),
    [
        ('kernel.cu(3): error: identifier "foo" is undefined\n   y[0] = foo;\n          ^\n\n'
         "1 error detected", "undeclared_name", "CUDA line 3: ident"),
        ('kernel.cu(2): catastrophic error: cannot open source file "nothing.h"', "missing_header",
         "nothing.h"),
        ("kernel.cu:7:10: fatal error: nothing.h: No such file or directory\n"
         "compilation terminated.", "missing_header", "CUDA line 7"),
        ("kernel.cu(5): error: expected a \";\"", "syntax", "expected a"),
        ('kernel.cu(9): error: no instance of overloaded function "f" matches the argument list',
         "type_mismatch", "overloaded"),
        ('kernel.cu(9): error: a value of type "float *" cannot be used to initialize an entity '
         'of type "int"', "type_mismatch", "float *"),
        ("ptxas info    : 0 bytes gmem\nptxas error   : Entry function 'k' uses too much shared "
         "data (0x3a980 bytes, 0xc000 max)",
         "resource_limit", "0x3a980"),
        ("ptxas fatal   : Unresolved extern function '_Z3foov'", "undefined_symbol", "_Z3foov"),
        ("ptxas kernel.ptx, line 30; error   : Instruction 'wgmma.fence' not supported on .target "
         "'sm_80'\nptxas fatal   : Ptx assembly aborted due to errors",
         "unsupported_instruction", "wgmma.fence"),
        ("ptxas application ptx input, line 30; error   : Feature 'cp.async' requires .target "
         "sm_80 or higher", "unsupported_instruction", "cp.async"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "unsupported_instruction",
         "-arch"),
        ("the compiler did not end", "", "did not end"),
    ],
)  # fmt: skip
def test_what_the_cuda_compilers_say_becomes_a_signal(log: str, signal: str, said: str) -> None:
    found = Cuda().read_log(log)[0]
    assert found.name == (f"compile_error.{signal}" if signal else "compile_error")
    assert said in found.message
