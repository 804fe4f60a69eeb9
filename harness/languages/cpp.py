"""C++ for the CPU: compiled by g++ or clang into a plain C ABI (harness.native.load_cpp)."""

from __future__ import annotations

import re

from ..types import Signal
from .base import Language, parse_entry

# What g++ and clang say (checked with g++ 12 and clang 19) -> the signal it means. First match of a line wins.
_MESSAGES = (
    (r"No such file or directory|file not found", "compile_error.missing_header"),
    (r"was not declared|undeclared identifier|has not been declared|unknown type name|does not name a type", "compile_error.undeclared_name"),
    (r"target specific option mismatch|inlining failed in call to .always_inline|always_inline function .* requires target feature|"
     r"needs? target feature", "compile_error.unsupported_instruction"),
    (r"undefined reference|undefined symbol|conflicting declaration .* with .C. linkage", "compile_error.undefined_symbol"),
    (r"cannot convert|invalid conversion|no matching function|no viable conversion|incompatible|no known conversion|"
     r"invalid operands|no match for", "compile_error.type_mismatch"),
    (r"expected|stray|unterminated|missing terminating|extraneous|before .* token", "compile_error.syntax"),
)  # fmt: skip
_ERROR_LINE = re.compile(r"^(.*?):(\d{1,9}):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_PACKED = re.compile(r"^v?(?:f(?:n?m(?:add|sub))\d*|add|sub|mul|div|sqrt|max|min|cvt\w*2|rcp14|rsqrt14|and|or|xor)p[sd]$")
_DIVIDES = re.compile(r"^v?[fisu]?(?:div|sqrt)")  # not the approximations, such as vrsqrt14ps
_BITWISE = re.compile(r"^v(?:and|or|xor)")  # scalar code zeroes its registers so
_SCALAR = re.compile(r"^v?(?:f(?:n?m(?:add|sub))\d*|add|sub|mul|div|sqrt|max|min)s[sd]$")

_FACTS = (
    "packed", "avx", "scalar", "zmm", "ymm", "xmm_packed",
    "gathers", "divisions", "branches", "calls", "spills", "math_calls",
)  # fmt: skip
_NARROW = 8  # packed AVX operations: fewer may be the tail or the horizontal sum of a kernel that works on integers
_DIVISION_SHARE = 5  # one in 5: a division occupies its unit 10 to 20 times as long as a multiplication


class Cpp(Language):
    """The `cpp` language."""

    name = "cpp"
    targets = ("cpu",)

    def police(self, source: str) -> Signal | None:
        return parse_entry(source)

    def read_log(self, log: str) -> tuple[Signal, ...]:
        found: list[Signal] = []
        for match in _ERROR_LINE.finditer(log):
            _, line, text = match.groups()
            name = next((signal for pattern, signal in _MESSAGES if re.search(pattern, text)), "compile_error")
            if name not in {s.name for s in found}:
                found.append(Signal(name, f"C++ line {line}: {text.strip()}", {"line": float(line)}))
        if not found:
            name = next((signal for pattern, signal in _MESSAGES if re.search(pattern, log)), "compile_error")
            words = log.strip().splitlines()
            found.append(Signal(name, words[-1] if words else "the compiler failed without a message"))
        return tuple(found[:4])

    def read_listing(self, listing: str) -> dict[str, float]:
        facts = dict.fromkeys(_FACTS, 0.0)
        for line in listing.splitlines():
            columns = line.split("\t")
            if len(columns) < 2:
                continue
            words = columns[-1].split(None, 1)
            if not words:
                continue
            name, operands = words[0], words[1] if len(words) > 1 else ""
            if _PACKED.match(name):
                facts["packed"] += 1
                facts["avx"] += name.startswith("v") and not _BITWISE.match(name)
                facts["zmm" if "zmm" in operands else "ymm" if "ymm" in operands else "xmm_packed"] += 1
            elif _SCALAR.match(name):
                facts["scalar"] += 1
            if _DIVIDES.match(name):
                facts["divisions"] += 1
            elif "gather" in name:
                facts["gathers"] += 1
            elif name.startswith("call"):
                facts["calls"] += 1
                facts["math_calls"] += bool(re.search(r"<(exp|log|pow|tanh|sin|cos|erf)\w*@plt", operands))
            elif name.startswith("j") and name != "jmp":
                facts["branches"] += 1
            elif name.startswith(("vmov", "mov")) and "(%rsp)" in operands.split(",")[-1] and "mm" in operands:
                facts["spills"] += 1
        return facts

    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        if not facts:
            return ()
        packed, scalar = facts["packed"], facts["scalar"]
        found = []
        if scalar > 3 and packed <= scalar * 0.1:
            found.append(
                Signal("not_vectorized", f"{scalar:.0f} scalar and {packed:.0f} packed floating-point instructions", facts)
            )
        elif scalar > packed > 0:
            found.append(
                Signal("partly_vectorized", f"{scalar:.0f} scalar and {packed:.0f} packed floating-point instructions", facts)
            )
        if facts.get("avx", 0.0) >= _NARROW and not facts["ymm"] + facts["zmm"]:
            said = f"all {facts['avx']:.0f} packed operations use 128-bit registers, although this is AVX code"
            found.append(Signal("narrow_vectors", said, facts))
        if facts["divisions"] >= 2 and facts["divisions"] * _DIVISION_SHARE >= packed + scalar > 0:
            said = f"{facts['divisions']:.0f} divisions and square roots in {packed + scalar:.0f} floating-point instructions"
            found.append(Signal("division_heavy", said, facts))
        if facts["math_calls"]:
            calls = facts["math_calls"]
            found.append(
                Signal("transcendental_heavy", f"{calls:.0f} calls of scalar library functions such as exp or log", facts)
            )
        if facts["gathers"]:
            found.append(Signal("gather_heavy", f"{facts['gathers']:.0f} gather instructions", facts))
        if facts["spills"] > 8:
            found.append(Signal("register_spill", f"{facts['spills']:.0f} vector stores to the stack", facts))
        return tuple(found)
