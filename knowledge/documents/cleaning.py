"""Making foreign text harmless for terminals and models: invisible characters are removed, and what
is shown cannot look like our own text."""

from __future__ import annotations

import re
import unicodedata

from kevolve_mcp.visible import is_invisible

MAX_LINE = 1000  # characters; longer lines are folded
_CSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_STRING = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?"
# ECMA-48: control sequences, control strings, other escapes
_ESCAPE = re.compile(rf"{_CSI}|{_STRING}|\x1b[ -/]*[0-~]?")
_LINE_END = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_MARKS = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_ODD = re.compile(r"[^\x20-\x7e\n\t]")
_WORD = re.compile(r"[^\W_]+")
_LIGATURES = re.compile("[\ufb00-\ufb06]")


def clean(text: str) -> str:
    """Return the text without escape sequences, control, invisible and direction characters, with
    uniform line ends and lines of at most MAX_LINE characters. Tabs stay, ligatures become
    letters."""
    if not text.isascii():
        text = _LIGATURES.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _LINE_END.sub("\n", _ESCAPE.sub("", text))
    text = _ODD.sub(lambda found: "" if is_invisible(found[0]) else found[0], text)
    text = _MARKS.sub(r"\1", text)
    return "\n".join(part for line in text.split("\n") for part in _folded(line.rstrip()))


def one_line(text: str, limit: int) -> str:
    """Return clean text on one line of at most `limit` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def plain(text: str) -> str:
    """Return lower case letters and digits with one space before each word and one at the end, so
    that " word" finds words that begin with it."""
    return " " + " ".join(_WORD.findall(text.lower())) + " "


def quoted(text: str) -> str:
    """Return the text with each line after "> ", so that none can look like one of ours, such as
    "Next: …", a heading or a fence."""
    return "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines())


def _folded(line: str) -> list[str]:
    return [line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE)] or [""]
