"""C++ for the CPU: compiled by g++ or clang, called through a plain C ABI
(harness.native.load_cpp)."""

from __future__ import annotations

import re

from ..types import Signal
from .base import Language, parse_entry

# message of g++ or clang (checked with g++ 12 and clang 19) -> signal. The first match wins.
_MESSAGES = (
    (r"No such file or directory|file not found", "compile_error.missing_header"),
    (r"was not declared|undeclared identifier|has not been declared|unknown type name|does not "
     r"name a type", "compile_error.undeclared_name"),
    (r"target specific option mismatch|inlining failed in call to .always_inline|always_inline "
     r"function .* requires target feature|"
     r"needs? target feature", "compile_error.unsupported_instruction"),
    (r"undefined reference|undefined symbol|conflicting declaration .* with .C. linkage",
     "compile_error.undefined_symbol"),
    (r"cannot convert|invalid conversion|no matching function|no viable conversion|incompatible|no "
     r"known conversion|"
     r"invalid operands|no match for", "compile_error.type_mismatch"),
    (r"expected|stray|unterminated|missing terminating|extraneous|before .* token",
     "compile_error.syntax"),
)  # fmt: skip
_ERROR_LINE = re.compile(r"^(.*?):(\d{1,9}):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
# least number of packed AVX operations in the hot loops; one may be a conversion in scalar code
_NARROW = 2
# least number of accesses to the stack in the hot loops; one may be for a value that is needed once
_SPILLS = 2
# one in 5: a division occupies its unit 10 to 20 times as long as a multiplication
_DIVISION_SHARE = 5


class Cpp(Language):
    """The `cpp` language."""

    name = "cpp"
    targets = ("cpu",)
    on_host = True

    def police(self, source: str) -> Signal | None:
        return parse_entry(source)

    def read_log(self, log: str) -> tuple[Signal, ...]:
        signals: list[Signal] = []
        for match in _ERROR_LINE.finditer(log):
            _, line, text = match.groups()
            name = next(
                (signal for pattern, signal in _MESSAGES if re.search(pattern, text)),
                "compile_error",
            )
            if name not in {s.name for s in signals}:
                signals.append(
                    Signal(name, f"C++ line {line}: {text.strip()}", {"line": float(line)})
                )
        if not signals:
            name = next(
                (signal for pattern, signal in _MESSAGES if re.search(pattern, log)),
                "compile_error",
            )
            words = log.strip().splitlines()
            signals.append(
                Signal(name, words[-1] if words else "the compiler failed without a message")
            )
        return tuple(signals[:4])

    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        """Explain the hot loops. facts: their counts (assembly.counting), and `loops`, the number
        of them; 0 for code without loops."""
        if not facts:
            return ()
        packed, scalar = facts["packed"], facts["scalar"]
        text = (
            f"{scalar:.0f} scalar and {packed:.0f} packed floating-point instructions in the hot "
            "loops"
        )
        signals = []
        if scalar > (0 if facts["loops"] else 3) and packed <= scalar * 0.1:
            signals.append(Signal("not_vectorized", text, facts))
        elif scalar > packed > 0:
            signals.append(Signal("partly_vectorized", text, facts))
        if facts["avx"] >= _NARROW and not facts["ymm"] + facts["zmm"]:
            text = (
                f"all {facts['avx']:.0f} packed operations of the hot loops use 128-bit registers, "
                "although the code uses AVX"
            )
            signals.append(Signal("narrow_vectors", text, facts))
        if facts["divisions"] >= 2 and facts["divisions"] * _DIVISION_SHARE >= packed + scalar > 0:
            text = (
                f"{facts['divisions']:.0f} divisions and square roots in {packed + scalar:.0f} "
                "floating-point instructions of the hot loops"
            )
            signals.append(Signal("division_heavy", text, facts))
        if facts["math_calls"]:
            calls = facts["math_calls"]
            text = (
                f"{calls:.0f} calls of scalar library functions such as exp or log in the hot loops"
            )
            signals.append(Signal("transcendental_heavy", text, facts))
        if facts["gathers"]:
            signals.append(
                Signal(
                    "gather_heavy",
                    f"{facts['gathers']:.0f} gather instructions in the hot loops",
                    facts,
                )
            )
        if facts["spills"] + facts["reloads"] >= _SPILLS:
            text = (
                f"{facts['spills']:.0f} stores to the stack and {facts['reloads']:.0f} loads from "
                "it in the hot loops"
            )
            signals.append(Signal("register_spill", text, facts))
        return tuple(signals)
