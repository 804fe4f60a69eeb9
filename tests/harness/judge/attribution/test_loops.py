"""The inside of C++ kernels, through real builds: width, cost, stack, and that what is cold does
not count."""

from __future__ import annotations

import platform
import shutil
from typing import Any

import pytest

from harness.assembly import Body, CompiledFunction, Inside
from harness.judge.attribution.loops import describe
from harness.languages import Cpp
from harness.types import Evaluation, Stage
from tests.harness.conftest import Bench

pytestmark = [
    pytest.mark.skipif(not shutil.which("objdump"), reason="no disassembler on this machine"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="written for AVX2"),
]
SUM = "    for (int64_t j = 0; j < m; j++) s += x[i * m + j];\n"
LAST = "    for (int64_t j = 0; j < m; j++) y[i * m + j] = std::tanh(x[i * m + j]) * w[j] + s;\n"
ROWS = 'extern "C" void rows('
WIDE = """
extern "C" void rows(const float* x, const float* w, float* y, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++)
      y[i * m + j] = x[i * m + j] * w[j];
}
"""
TAIL = """
#include <immintrin.h>
extern "C" void rows(const float* x, const float* w, float* y, int64_t n, int64_t m) {
  int64_t i = 0;
  for (; i + 8 <= n * m; i += 8) {
    __m256 v = _mm256_loadu_ps(x + i);
    _mm256_storeu_ps(y + i, _mm256_mul_ps(v, v));
  }
  for (; i < n * m; ++i)
    y[i] = std::exp(x[i]);
}
"""
SPILLS = """
extern "C" void rows(const float* x, const float* w, float* y, int64_t n, int64_t m) {
  double a[40];
  for (int k = 0; k < 40; ++k) a[k] = w[k % m];
  for (int64_t i = 0; i < n * m; i += 1) {
    #pragma GCC unroll 40
    for (int k = 0; k < 40; ++k) { a[k] = a[k] * x[i] + 1.0; asm volatile("" : "+x"(a[k])); }
  }
  double s = 0;
  for (int k = 0; k < 40; ++k) s += a[k];
  y[0] = s;
}
"""
FALLBACK = """
extern "C" void strange(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = std::exp(x[i]);
}
"""


AVX2 = "-mavx2 -mno-avx512f -mprefer-vector-width=256"


def candidate(correct: str, body: str, flags: str = AVX2) -> str:
    """The correct candidate with another native text."""
    begin, end = correct.index(ROWS), correct.index('"""\n_lib')
    return with_flags(f"{correct[:begin]}{body.strip()}\n{correct[end:]}", flags)


def with_flags(source: str, flags: str = AVX2) -> str:
    """Which loops there are depends on the machine otherwise: some have a sum in order
    vectorized."""
    return source.replace("load_cpp(SOURCE,", f"load_cpp(SOURCE, flags={flags.split()!r},")


def inside(evaluation: Evaluation) -> dict[str, Any]:
    """Data of the stage that has them; only one has."""
    (found,) = (s.data for s in evaluation.stages if "loops" in s.data)
    return found


def of(bench: Bench, source: str, through: Stage = "build") -> dict[str, Any]:
    return inside(bench.evaluate(source, through))


def test_a_vectorized_loop_shows_its_width_without_its_remainder(
    bench: Bench, correct: str
) -> None:
    found = of(bench, candidate(correct, WIDE))
    main = found["loops"][0]
    assert (main["vector_bits"], main["lanes"], main["remainder"]) == (256, 8, False)
    assert main["cycles"] > 0
    assert main["estimated_by"]
    assert main["port_pressure"]
    assert all(row["remainder"] for row in found["loops"][1:])
    assert Cpp().explain(found["static"]) == ()
    text = found["listings"][main["loop"]]
    assert "y[i * m + j] = x[i * m + j] * w[j];" in text
    assert "mulps" in text
    assert "ymm" in text


def test_a_scalar_loop_has_one_lane_and_waits_for_itself(bench: Bench, correct: str) -> None:
    rows = {row["loop"]: row for row in of(bench, with_flags(correct))["loops"]}
    (line,) = (
        n
        for n, text in enumerate(correct.split('r"""')[1].split('"""')[0].splitlines(), 1)
        if text and text in SUM
    )
    total = rows[f"rows, line {line}"]
    assert (total["vector_bits"], total["lanes"]) == (0, 1)
    assert "dependencies" in total["limited_by"]


def test_what_was_called_counts_and_a_cold_fallback_does_not(bench: Bench, correct: str) -> None:
    cold = with_flags(correct.replace(ROWS, FALLBACK.lstrip() + ROWS))
    built, checked = of(bench, cold), of(bench, cold, "verify")
    assert any(row["loop"].startswith("strange") for row in built["loops"])
    assert not any(row["loop"].startswith("strange") for row in checked["loops"])
    assert (built["static"]["math_calls"], checked["static"]["math_calls"]) == (2, 1)
    assert "called" in checked["loops_of"]
    # its own tanh, in the loop
    assert "transcendental_heavy" in {s.name for s in Cpp().explain(checked["static"])}
    calm = cold.replace("std::tanh(x[i * m + j])", "x[i * m + j]")
    wrong = bench.evaluate(calm, "verify")
    assert wrong.status == "incorrect"
    found = inside(wrong)
    assert "note" not in found["listings"]
    assert "rows, line" in "".join(found["listings"])


def test_a_tail_that_is_written_out_does_not_count(bench: Bench, correct: str) -> None:
    found = of(bench, candidate(correct, TAIL))
    assert [row["remainder"] for row in found["loops"]] == [False, True]
    assert found["loops"][1]["calls"] == 1
    assert found["static"]["math_calls"] == 0
    assert "transcendental_heavy" not in {s.name for s in Cpp().explain(found["static"])}


def test_spills_are_counted_inside_the_loop(bench: Bench, correct: str) -> None:
    found = of(bench, candidate(correct, SPILLS))
    spilling = max(found["loops"], key=lambda row: row["spills"] + row["reloads"])
    assert spilling["spills"] >= 4
    assert spilling["reloads"] >= 4
    assert "spills" in spilling["summary"]
    assert "register_spill" in {s.name for s in Cpp().explain(found["static"])}
    assert of(bench, candidate(correct, WIDE))["static"]["spills"] == 0


def test_what_a_compiler_s_process_says_is_bounded() -> None:
    from harness.judge.errors import Interfered
    from harness.judge.processes.answers import read_inside as heard

    assert (
        heard('{"functions": {"f": {"bodies": [{"text": "\\u001b[2J"}]}}}')
        .functions["f"]
        .bodies[0]
        .text[0]
        != "\x1b"
    )
    assert heard("{}") == Inside()
    bodies = ", ".join(["{}"] * 101)
    for said in ("[]", '{"functions": 1}', f'{{"functions": {{"f": {{"bodies": [{bodies}]}}}}}}',
                 "x",
                 '{"functions": {"f": {"bodies": [{"cycles": 1e300}]}}}',
                 '{"functions": {"f": {"bodies": [{"cycles": NaN}]}}}'):  # fmt: skip
        with pytest.raises(Interfered):
            heard(said)


def test_special_values_name_the_input_and_bar_nothing(bench: Bench, correct: str) -> None:
    guarded = correct.replace(
        "std::tanh(x[i * m + j])", "(x[i * m + j] == x[i * m + j] ? std::tanh(x[i * m + j]) : 0.0f)"
    )
    found = bench.evaluate(
        guarded.replace(
            "s += x[i * m + j];", "s += x[i * m + j] == x[i * m + j] ? x[i * m + j] : 0.0f;"
        ),
        "verify",
    )
    assert found.status == "correct"
    (signal,) = (s for s in found.signals if s.name == "special_values")
    assert "input 0 (float32[" in signal.message
    assert "no candidate fails because of" in signal.message


def test_loops_of_the_function_that_was_called_most_come_first() -> None:
    functions = {
        "once": CompiledFunction(True, (), (Body(line=1),)),
        "often": CompiledFunction(True, ("helper",), (Body(line=3, remainder=True),)),
        "helper": CompiledFunction(False, (), (Body(line=2),)),
        "never": CompiledFunction(True, (), (Body(line=4),)),
    }
    libraries = {"a": Inside(functions, "objdump")}
    found = describe(libraries, {"a": {"once": 1, "often": 1000, "unknown": 3}})
    rows = [(row["loop"], row["function_calls"]) for row in found["loops"]]
    assert rows == [("helper, line 2", 1000), ("once, line 1", 1), ("often, line 3", 1000)]
    assert "its function was called 1,000 times" in found["loops"][0]["summary"]
    assert "its function was called 1 time;" in found["loops"][1]["summary"] + ";"
    assert "it is not known whether a loop in one of them ran at all" in found["loops_of"]
    built = describe(libraries, {})
    assert {row["function_calls"] for row in built["loops"]} == {None}
    assert len(built["loops"]) == 4
