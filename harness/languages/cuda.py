"""CUDA C++: compiled by NVRTC or nvcc for one architecture, launched by the candidate's host code
(harness.native.load_cuda)."""

from __future__ import annotations

import re

from ..types import Signal
from .base import parse_entry
from .device import DeviceLanguage

# message of NVRTC and nvcc (they share a front end), of nvcc's host compiler, or of ptxas (checked
# with CUDA 13.0) -> signal. The first match wins.
_MESSAGES = (
    (r"open source file|No such file or directory", "compile_error.missing_header"),
    (r"uses too much (?:shared|global|local|parameter) (?:data|space)|too many resources|Register "
     r"allocation failed|out of memory|"
     r"too large|exceeds", "compile_error.resource_limit"),
    (r"not supported on|cannot be compiled for architecture|requires? \.?target|[Uu]nsupported gpu "
     r"architecture|invalid value for --gpu-architecture|require[sd]? (?:sm_|compute)|"
     r"is only (?:supported|available) (?:on|for)|[Ff]eature .* (?:requires|not supported)|not "
     r"supported in the selected target", "compile_error.unsupported_instruction"),
    (r"[Uu]nresolved extern|undefined reference|was declared but never defined|could not find name",
     "compile_error.undefined_symbol"),
    (r"is undefined|has no member|is not a (?:template|class)|not declared|name must be a|no "
     r"longer exists", "compile_error.undeclared_name"),
    (r"no instance of|incompatible|cannot be used to initialize|no suitable|does not match|no "
     r"operator|cannot be assigned|must have .* type|"
     r"too (?:many|few) arguments|more than one (?:instance|operator)|argument of type|invalid "
     r"(?:type )?conversion|not convertible|"
     r"types? .*mismatch", "compile_error.type_mismatch"),
    (r"expected|unrecognized token|missing closing quote|not allowed|extra "
     r"text|unterminated|Parsing error|syntax error", "compile_error.syntax"),
)  # fmt: skip
_ERROR = re.compile(
    r"^(?:\S*?\((?P<line>\d{1,9})\)|\S*?:(?P<line2>\d{1,9}):\d+|ptxas\b(?:[^;:\n"
    r"]*;)?|nvrtc|nvcc|nvlink)\s*:? *"
    r"(?:fatal|catastrophic)?\s*(?:error|fatal)\s*(?:#\S+)?\s*:\s*(?P<said>.*)$",
    re.MULTILINE,
)


class Cuda(DeviceLanguage):
    """The `cuda` language."""

    name = "cuda"
    targets = ("cuda",)
    built_as_text = True

    def police(self, source: str) -> Signal | None:
        return parse_entry(source)

    def read_log(self, log: str) -> tuple[Signal, ...]:
        signals: list[Signal] = []
        for match in _ERROR.finditer(log):
            line, message = match["line"] or match["line2"], match["said"].strip()
            if message.startswith("Ptx assembly aborted"):  # follows the actual reasons
                continue
            name = _meaning(message)
            if name not in {s.name for s in signals}:
                where, evidence = (
                    (f"CUDA line {line}: ", {"line": float(line)}) if line else ("", {})
                )
                signals.append(Signal(name, f"{where}{message}"[:600], evidence))
        if not signals:
            lines = [
                line.strip()
                for line in log.splitlines()
                if line.strip() and not line.startswith("ptxas info")
            ]
            signals.append(
                Signal(
                    _meaning(log),
                    lines[-1][:600] if lines else "the compiler failed without a message",
                )
            )
        return tuple(signals[:4])


def _meaning(message: str) -> str:
    return next(
        (signal for pattern, signal in _MESSAGES if re.search(pattern, message)), "compile_error"
    )
