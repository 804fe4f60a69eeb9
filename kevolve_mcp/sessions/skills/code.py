"""Checking comments and strings of code by the rule for a skill's texts.

Kernels are Python whose strings contain C++, and differences begin in the middle, so no parser
reads them all. Comments of both languages and strings are recognized by simple patterns, also
inside multi-line strings; the whole text is searched for instructions to the reader, paths and
invisible characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kevolve_mcp.errors import UsageError

from . import wording

_TOKEN = re.compile(
    r"""
    (?P<division> [\w)\]][ \t]*//(?:=|[ \t]*(?=[\w(-])) )
  | (?P<comment> \#(?!(?:include|define|pragma|if|else|elif|endif)\b)[^\n]* | //[^\n]*
               | /\*.*?(?:\*/|\Z) )
  | (?P<long> \"\"\".*?(?:\"\"\"|\Z) | '''.*?(?:'''|\Z) )
  | (?P<short> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    """,
    re.VERBOSE | re.DOTALL,
)
DIFFERENCE = "--- parent.py\n+++ kernel.py\n"
"""The beginning of a difference between a pair of kernels."""
# what occurs in a program but not in a sentence
_PROGRAM = re.compile(r"[;{}][ \t\\]*(?://.*)?$|^[^\S\n]*(?:def \w+\(|#include\b)", re.MULTILINE)


@dataclass(frozen=True)
class _Prose:
    """A comment or string. start, end: its place in the text of the code."""

    text: str
    is_comment: bool
    start: int
    end: int


def check_excerpt(text: str) -> None:
    """Check the code that shows a pattern in a page. Raises UsageError."""
    if len(text) > wording.MAX_TEXT:
        raise UsageError(
            f"code is longer than {wording.MAX_TEXT} characters",
            "Show the few lines that make the difference.",
        )
    if "```" in text or "~~~" in text:
        raise UsageError(
            "code contains the fence of a code block",
            "Give only the code, without Markdown around it.",
        )
    wrong, fix = problem(text)
    if wrong:
        raise UsageError(f"code {wrong}", fix)


def problem(text: str) -> tuple[str, str]:
    """Return what is not allowed in a code, and what to write instead; ("", "") if it is fine."""
    wrong = wording.problem_anywhere(text)
    return wrong if wrong[0] else _problem_of_prose(text)


def without_problems(text: str) -> str:
    """Return the code without comments that are not allowed; "" if it is still not allowed."""
    for prose in reversed(list(_prose(text))):
        if prose.is_comment and wording.problem(prose.text)[0]:
            text = text[: prose.start].rstrip(" \t") + text[prose.end :]
    return "" if problem(text)[0] else text


def missing(excerpt: str, source: str) -> str:
    """Return the first line of an excerpt that the source does not contain in the same order; ""
    if it contains all. Comments and white space do not count, lines may be left out in between, and
    of a difference only added lines are searched. An excerpt without code is never contained."""
    lines = excerpt.splitlines()
    if all(line[:1] in "+-@ …" for line in lines) and any(line[:1] == "+" for line in lines):
        excerpt = "\n".join(
            line[1:] for line in lines if line[:1] == "+" and not line.startswith("+++ ")
        )
    wanted = [line for line in map(_bare, _plain(excerpt).splitlines()) if line.strip(".…")]
    if not wanted:
        return excerpt.strip() or "nothing"
    text, start = _bare(_plain(source)), 0
    for line in wanted:
        position = text.find(line, start)
        if position < 0:
            return line
        start = position + len(line)
    return ""


def _plain(text: str) -> str:
    """The text without comments."""
    for prose in reversed(list(_prose(text))):
        if prose.is_comment:
            text = text[: prose.start] + text[prose.end :]
    return text


def _bare(line: str) -> str:
    """The line without white space."""
    return "".join(line.split())


def _problem_of_prose(text: str) -> tuple[str, str]:
    for prose in _prose(text):
        wrong, fix = wording.problem(prose.text)
        if wrong:
            return f"{wrong} in a {'comment' if prose.is_comment else 'string'}", fix
    return "", ""


def _prose(text: str, offset: int = 0) -> Iterator[_Prose]:
    for token in _TOKEN.finditer(text):
        kind, start, end = token.lastgroup, offset + token.start(), offset + token.end()
        if kind == "comment":
            yield _Prose(token[0].lstrip("#/* \t"), True, start, end)
        elif kind == "long" and _PROGRAM.search(token[0][3:-3]):
            yield from _prose(token[0][3:-3], start + 3)
        elif kind in ("long", "short"):
            yield _Prose(token[0].strip("\"'"), False, start, end)
