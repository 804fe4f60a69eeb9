"""The interface of a language: checks of a candidate's text before anything runs, and the
interpretation of the compiler's output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ..types import Signal, Target


class Language(ABC):
    """One language of candidates. Stateless; called from one thread; no method runs the candidate.

    `police` reads only the text and may reject only what cannot work at all: whether a candidate is
    honest is never decided by its text.

    interpreted_on: target families where its kernels are interpreted and never timed.
    built_as_text: the build service compiles its kernels from text for a device, and launches are
    matched with these builds. on_host: its kernels are host code, whose loops can be analysed.
    """

    name: str
    targets: tuple[str, ...]
    interpreted_on: tuple[str, ...] = ()
    built_as_text = False
    on_host = False

    @abstractmethod
    def police(self, source: str) -> Signal | None:
        """Return a reason to reject the text without running it (not parseable, no entry point), or
        None."""

    def unfit(self, source: str, target: Target, dtypes: Iterable[str]) -> str:
        """Return why a verdict on this text would be meaningless on the target, "" if it would not.
        This is not the candidate's fault, so the evaluation is refused. dtypes: of the task's
        tensors, as TensorSpec spells them."""
        return ""

    @abstractmethod
    def read_log(self, log: str) -> tuple[Signal, ...]:
        """Turn compiler output into signals, the most specific first; at least `compile_error` for
        a failed build."""

    @abstractmethod
    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        """Turn static facts into signals that can explain a slow kernel."""


UNREADABLE = (
    SyntaxError,
    ValueError,
    RecursionError,
    MemoryError,
)  # what Python's parser raises; the last two for text that is nested too deeply


def _encoding_problem(source: str) -> str:
    """Return why the text would differ when read from a file, as in an exported package, "" if it
    would not. There Python obeys a declared encoding, in which a comment may contain code."""
    import codecs
    import io
    import tokenize

    lines = source.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads a file
    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(lines.encode()).readline)
    except (SyntaxError, UnicodeEncodeError) as error:
        return f"line 1: not UTF-8 text: {error}"
    if codecs.lookup(declared).name != "utf-8":
        return f"line 1: the text declares the encoding {declared}; only UTF-8 is accepted"
    return ""


def parse_entry(source: str) -> Signal | None:
    """Check what every language requires: valid Python with `ModelNew` or `kernel`."""
    import ast

    if text := _encoding_problem(source):
        return Signal("structure.syntax_error", text)
    try:
        tree = ast.parse(source)
    except UNREADABLE as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        return Signal("structure.syntax_error", f"line {line}: not valid Python: {reason}")
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(a.asname or a.name) for a in node.names}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.Expr)):
            return None  # may be defined conditionally or by execution: the worker finds out
    if bound & {"ModelNew", "kernel"}:
        return None
    return Signal(
        "structure.no_entry_point",
        "the file defines neither class ModelNew(nn.Module) nor kernel(*inputs); define one with "
        "the task's constructor and forward",
    )
