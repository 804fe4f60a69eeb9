"""A worker's report of an error: its kind, from a closed list, and a text with the innermost frames
of the loaded code."""

from __future__ import annotations

import os
import traceback

ERROR_KINDS = (
    "exception", "no_entry_point", "syntax_error", "constructor", "parameter_mismatch", "structure",
    "shape", "dtype", "out_of_memory", "native", "task", "compile", "unfit", "out_of_bounds",
    "input_mutation", "library_call",
)  # fmt: skip
_FRAMEWORK = ("/harness/", "/triton/", "/torch/nn/modules/")  # folders whose frames do not help


def kind_of(error: Exception) -> str:
    """Classify an error that the loaded text raised."""
    text = str(error)
    if type(error).__name__ == "NativeError":
        return "native"
    if any(c.__name__ == "TritonError" for c in type(error).__mro__):
        return _triton_kind(error)
    if "not enough memory" in text or "out of memory" in text or "can't allocate memory" in text:
        return "out_of_memory"
    return "exception"


def _triton_kind(error: BaseException) -> str:
    """Classify an error of Triton. Its interpreter wraps whatever a kernel raises: wrong names,
    shapes and types count as errors of compilation, the rest as crashes."""
    inner = error.__cause__
    if type(error).__name__ != "InterpreterError" or inner is None:
        return "compile"
    return (
        "compile"
        if isinstance(inner, (NameError, AttributeError, ValueError, TypeError))
        else "exception"
    )


def describe(error: BaseException) -> str:
    """Return the error's message and the innermost frames of the loaded text."""
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not any(folder in f.filename for folder in _FRAMEWORK)
    ]
    loaded = [f for f in frames if not os.path.isabs(f.filename)] or frames[-1:]
    trace = "".join(
        f"\n  {f.filename}, line {f.lineno}, in {f.name}: {f.line or ''}" for f in loaded[-6:]
    )
    return f"{type(error).__name__}: {error}{_causes(error)}{trace}"


def _causes(error: BaseException) -> str:
    """Return the causes of a compilation error, which hold the messages about functions that the
    kernel calls."""
    text, inner = "", error.__cause__
    while inner is not None and any(c.__name__ == "CompilationError" for c in type(error).__mro__):
        text += f"\n{type(inner).__name__}: {inner}"
        error, inner = inner, inner.__cause__
    return text
