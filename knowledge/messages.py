"""Messages of compilers, loaders and drivers as signals: a pasted message finds the pages on its
cause.

The patterns are whole phrases that tools print, so that a question in a user's own words is not
mistaken for a message.
"""

from __future__ import annotations

import re

# in order of precedence: messages that name a cause come before those that only report a failure
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"out of resources?: (?:shared memory|registers|threads|tensor memory)",
     "compile_error.resource_limit"),
    (r"uses too much (?:shared|local|parameter|global|constant) (?:data|space|memory)",
     "compile_error.resource_limit"),
    (r"too many resources requested for launch", "compile_error.resource_limit"),
    (r"exceeds triton maximum tensor numel", "compile_error.resource_limit"),
    (r"\b\d+ bytes spill (?:stores|loads)|insufficient register resources|"
     r"\bvgpr spill count: [1-9]", "register_spill"),
    (r"undefined (?:reference to|symbol)|unresolved (?:extern|symbol)|symbol lookup error",
     "compile_error.undefined_symbol"),
    (r"fatal error: [^\n]*no such file or directory|cannot open source file|file not found\b",
     "compile_error.missing_header"),
    (r"was not declared in this scope|use of undeclared identifier|identifier \"[^\"\n"
     r"]+\" is undefined", "compile_error.undeclared_name"),
    (r"target specific option mismatch|needs target feature|requires target feature",
     "compile_error.unsupported_instruction"),
    (r"not supported on \.?target|no such instruction|is not defined for option 'gpu-name'",
     "compile_error.unsupported_instruction"),
    (r"no kernel image is available|invalid value for --gpu-architecture",
     "compile_error.unsupported_instruction"),
    (r"cannot (?:broadcast|make_shape_compatible)|incompatible dimensions|input shapes should have",
     "compile_error.shape_mismatch"),
    (r"range must be a power of 2|must be a power of (?:2|two)\b", "compile_error.shape_mismatch"),
    (r"is re-assigned to|cannot convert '|invalid conversion from|no matching function for call",
     "compile_error.type_mismatch"),
    (r"error: expected '?[^\n]{1,40}(?:before|at end of input)|expected unqualified-id",
     "compile_error.syntax"),
    (r"triton\.compiler\.errors\.\w*error|\bcompilationerror\b|catastrophic error",
     "compile_error"),
    (r"nvcc: (?:command )?not found|libnvrtc[^\n]*cannot open|failed to find c compiler|[gc]\+\+: "
     r"(?:command )?not found", "toolchain_missing"),
    (r"illegal memory access|misaligned address|memory access fault by gpu|hsa_status_error_memory",
     "crash.illegal_address"),
    (r"segmentation fault|\bsigsegv\b", "crash.segmentation_fault"),
    (r"illegal instruction|\bsigill\b", "crash.illegal_instruction"),
    (r"floating point exception|\bsigfpe\b", "crash.arithmetic"),
    (r"std::bad_alloc|cuda out of memory|hip out of memory|outofmemoryerror|cannot allocate "
     r"memory|oom-kill", "out_of_memory"),
    (r"double free or corruption|free\(\): invalid|malloc\(\): |heap corruption|corrupted size "
     r"vs|\bsigabrt\b", "crash.abort"),
    (r"terminate called after throwing|device-side assert", "crash.abort"),
    (r"__init__\(\) (?:missing \d+|takes \d+|got an unexpected)", "structure.constructor_mismatch"),
    (r"does not require grad and does not have a grad_fn", "wrong.gradients"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(phrase), signal) for phrase, signal in _PHRASES)
MOST = 3  # signals of one text: logs repeat themselves, and the first messages name the causes


def signals_of(text: str) -> tuple[str, ...]:
    """Return the signals of messages of tools in a text, causes first, at most three; () for any
    other text."""
    plain = text.casefold()
    return tuple(dict.fromkeys(signal for pattern, signal in _PATTERNS if pattern.search(plain)))[
        :MOST
    ]


def vocabulary() -> frozenset[str]:
    """Return every signal that a message can lead to."""
    return frozenset(signal for _, signal in _PHRASES)
