"""What a language adds to the evaluator: checks of the text before anything runs, and the meaning
of its compiler's words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ..types import Signal, Target


class Language(ABC):
    """One language of candidates. Stateless; called from one thread; nothing here runs the
    candidate.

    `police` may only look at text and may only reject what cannot work at all: text never decides
    about honesty.

    interpreted_on: families of targets where its kernels are interpreted, and nothing is timed.
    built_as_text: its kernels are texts that the build service compiles for a device, and what is
    launched is joined with what it built. on_host: they are host code, whose loops can be read.
    """

    name: str
    targets: tuple[str, ...]
    interpreted_on: tuple[str, ...] = ()
    built_as_text = False
    on_host = False

    @abstractmethod
    def police(self, source: str) -> Signal | None:
        """A reason to reject the text unrun (not parseable, no entry point), or None."""

    def unfit(self, source: str, target: Target, dtypes: Iterable[str]) -> str:
        """Why a verdict on this text would be worth nothing there ("" where it is worth something):
        not the candidate's fault, so it is no evaluation but a refusal. dtypes: of the task's
        tensors, as TensorSpec spells them."""
        return ""

    @abstractmethod
    def read_log(self, log: str) -> tuple[Signal, ...]:
        """Compiler output -> signals, the most specific first; at least `compile_error` for a
        failed build."""

    @abstractmethod
    def explain(self, facts: dict[str, float]) -> tuple[Signal, ...]:
        """Static facts -> signals that can explain a slow kernel."""


UNREADABLE = (
    SyntaxError,
    ValueError,
    RecursionError,
    MemoryError,
)  # what Python's parser raises; the last two for text nested too deeply


def _encoding_problem(source: str) -> str:
    """Why the text would not be the same when it is read from a file, as the package's is: Python
    obeys a declared encoding there, in which a comment may hold code."""
    import io
    import tokenize

    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(source.encode()).readline)
    except (SyntaxError, UnicodeEncodeError) as error:
        return f"line 1: not UTF-8 text: {error}"
    if declared != "utf-8":
        return f"line 1: the text declares the encoding {declared}; only UTF-8 is accepted"
    return ""


def parse_entry(source: str) -> Signal | None:
    """The check that every language shares: valid Python with `ModelNew` or `kernel`."""
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
            return None  # defined under a condition or by execution: the worker will see
    if bound & {"ModelNew", "kernel"}:
        return None
    return Signal(
        "structure.no_entry_point",
        "the file defines neither class ModelNew(nn.Module) nor kernel(*inputs); define one with "
        "the task's constructor and forward",
    )
