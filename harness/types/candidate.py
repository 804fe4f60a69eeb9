"""A candidate: one implementation, identified by the hash of its text."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass

ParamValue = bool | int | float | str
Tunables = dict[str, tuple[ParamValue, ...]]
Params = dict[str, ParamValue]

_LINE_ENDS = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
"""The position after each line end that Python's parser recognises; str.splitlines also splits at
other characters."""


class CandidateError(ValueError):
    """The candidate's text cannot be read. The message names the line and what is accepted."""


@dataclass(frozen=True)
class Candidate:
    """Source text plus language. Two candidates are the same exactly when their digests are
    equal."""

    source: str
    language: str

    @property
    def digest(self) -> str:
        """SHA-256 of language and source, in hex."""
        return hashlib.sha256(f"{self.language}\0{self.source}".encode()).hexdigest()

    def tunables(self) -> Tunables:
        """Read the literal `TUNABLES = {"NAME": [choices]}` of the source, {} without one. Raises
        CandidateError."""
        literal = _literal(self.source, "TUNABLES")
        if literal is None:
            return {}
        value, line = literal
        if not isinstance(value, dict) or not all(
            isinstance(k, str)
            and isinstance(v, (list, tuple))
            and v
            and all(isinstance(c, (bool, int, float, str)) for c in v)
            for k, v in value.items()
        ):
            raise CandidateError(
                f"line {line}: TUNABLES must map names to non-empty lists of numbers, strings or "
                'booleans, e.g. {"BLOCK": [64, 128]}'
            )
        return {k: tuple(v) for k, v in value.items()}

    def params(self) -> Params:
        """Read the literal `PARAMS = {"NAME": value}` of the source, {} without one. Raises
        CandidateError."""
        literal = _literal(self.source, "PARAMS")
        if literal is None:
            return {}
        value, line = literal
        if not isinstance(value, dict) or not all(
            isinstance(v, (bool, int, float, str)) for v in value.values()
        ):
            raise CandidateError(
                f"line {line}: PARAMS must map names to one number, string or boolean each, e.g. "
                '{"BLOCK": 128}'
            )
        return dict(value)

    def with_params(self, params: Params) -> Candidate:
        """Return the candidate with its PARAMS literal replaced. Raises CandidateError when the
        source has none."""
        span = _assignment(self.source, "PARAMS")
        if span is None:
            raise CandidateError(
                "the source has no literal PARAMS = {...} to replace; add one, e.g. PARAMS = "
                '{"BLOCK": 128}'
            )
        lines = _LINE_ENDS.split(self.source)
        tail = (
            lines[(span.value.end_lineno or 1) - 1]
            .encode()[span.value.end_col_offset or 0 :]
            .decode()
        )
        head = lines[span.value.lineno - 1].encode()[: span.value.col_offset].decode()
        text = (
            "".join(lines[: span.value.lineno - 1])
            + head
            + repr(dict(params))
            + tail
            + "".join(lines[span.value.end_lineno or 1 :])
        )
        return Candidate(text, self.language)


def _assignment(source: str, name: str) -> ast.Assign | None:
    try:
        module = ast.parse(source)
    # ast.parse raises the last two for text that is nested too deeply
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise CandidateError(
            f"line {line}: not valid Python: {error or type(error).__name__}"
        ) from error
    for statement in module.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in statement.targets
        ):
            return statement
    return None


def _literal(source: str, name: str) -> tuple[object, int] | None:
    statement = _assignment(source, name)
    if statement is None:
        return None
    try:
        return ast.literal_eval(statement.value), statement.lineno
    except (ValueError, TypeError, RecursionError, MemoryError) as error:  # {[1]: 2} is a TypeError
        raise CandidateError(
            f"line {statement.lineno}: {name} must be a literal; computed values are not read"
        ) from error
