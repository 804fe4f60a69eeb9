"""How a worker reports an error: its kind, of a closed list, and a text with the innermost frames
of the code that was loaded."""

from __future__ import annotations

import os
import traceback

ERROR_KINDS = (
    "exception", "no_entry_point", "syntax_error", "constructor", "parameter_mismatch", "structure",
    "shape", "dtype", "out_of_memory", "native", "task", "compile", "unfit", "out_of_bounds",
    "input_mutation",
)  # fmt: skip
_FRAMEWORK = ("/harness/", "/triton/", "/torch/nn/modules/")  # folders whose frames say nothing


def kind_of(error: Exception) -> str:
    """The kind of an error that the loaded text raised."""
    text = str(error)
    if type(error).__name__ == "NativeError":
        return "native"
    if any(c.__name__ == "TritonError" for c in type(error).__mro__):
        return _triton_kind(error)
    if "not enough memory" in text or "out of memory" in text or "can't allocate memory" in text:
        return "out_of_memory"
    return "exception"


def _triton_kind(error: BaseException) -> str:
    """Triton's interpreter wraps whatever a kernel raises: names, shapes and types are its grammar,
    the rest is a crash."""
    inner = error.__cause__
    if type(error).__name__ != "InterpreterError" or inner is None:
        return "compile"
    return (
        "compile"
        if isinstance(inner, (NameError, AttributeError, ValueError, TypeError))
        else "exception"
    )


def describe(error: BaseException) -> str:
    """The error in words, then the innermost frames of the loaded text."""
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
    """What the compiler says about functions that a kernel calls stands in the causes of its
    error."""
    text, inner = "", error.__cause__
    while inner is not None and any(c.__name__ == "CompilationError" for c in type(error).__mro__):
        text += f"\n{type(inner).__name__}: {inner}"
        error, inner = inner, inner.__cause__
    return text
