"""Splitting a document's text into passages: at headings if there are any, else at paragraphs, of
at most MAX_PASSAGE characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .cleaning import clean, one_line

MAX_PASSAGE = 1200  # characters: with its heading it fits one section of an ask
MAX_PASSAGES = 50_000  # of one document
MAX_HEADING = 160
_UNDERLINE = re.compile(r"([=\-~^*+])\1{2,}")
_DEPTH = {"=": 1, "-": 2}  # in Markdown; elsewhere marks that come first have the higher level


@dataclass(frozen=True)
class Form:
    """How a kind of text marks headings and code. marked: a heading's line. alone: only after an
    empty line or one in brackets. underlined: whether a line of marks below makes a heading. fence:
    a line that begins code; the same marks alone end it."""

    marked: re.Pattern[str] | None
    alone: bool
    underlined: bool
    fence: re.Pattern[str] | None


MARKDOWN = Form(
    re.compile(r"(#{1,6})[ \t]+(\S.*?)[ \t]*#*"), False, True, re.compile(r"`{3,}|~{3,}")
)
ASCIIDOC = Form(
    re.compile(r"(={1,6})[ \t]+(\S.*?)[ \t]*"),
    True,
    False,
    re.compile(r"`{3,}|-{4,}|\.{4,}|\+{4,}|/{4,}"),
)
PLAIN = Form(None, False, True, None)
FORMS = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".adoc": ASCIIDOC,
    ".asciidoc": ASCIIDOC,
    ".asc": ASCIIDOC,
}
"""Suffix -> form; other text is PLAIN."""


@dataclass(frozen=True)
class DocumentPassage:
    """One passage. heading: the path of headings to it, "Chapter > Section"; "" before the first.
    text: without heading, as cleaned by clean()."""

    heading: str
    text: str


def cut(text: str, form: Form = MARKDOWN) -> tuple[str, tuple[DocumentPassage, ...]]:
    """Return the title (first heading, or "") and the passages in order, each with some text;
    passages beyond MAX_PASSAGES are left out."""
    passages: list[DocumentPassage] = []
    title = ""
    for heading, body in _sections(clean(text).split("\n"), form):
        title = title or heading.split(" > ")[0]
        for piece in _pieces(body):
            passages.append(DocumentPassage(heading, piece))
            if len(passages) == MAX_PASSAGES:
                return title, tuple(passages)
    return title, tuple(passages)


def _sections(lines: list[str], form: Form) -> Iterator[tuple[str, list[str]]]:
    """The (path of headings, lines) of each section. An unclosed fence does not hide the rest: its
    lines count as text."""
    path: list[tuple[int, str]] = []
    body: list[str] = []
    fence = ""
    last = {line: number for number, line in enumerate(lines)}
    depths: dict[str, int] = {}
    for number, line in enumerate(lines):
        if fence:
            fence = "" if line == fence else fence
        elif form.fence and (opened := form.fence.match(line)) and last.get(opened[0], -1) > number:
            fence = opened[0]
        elif found := _heading(line, body, form):
            sign, heading, above = found
            depth = (
                len(sign)
                if not above
                else _DEPTH.get(sign, 3)
                if form.marked
                else depths.setdefault(sign, len(depths) + 1)
            )
            yield _joined(path), body[: len(body) - above]
            path = [*(part for part in path if part[0] < depth), (depth, heading)]
            body = []
            continue
        body.append(line)
    yield _joined(path), body


def _heading(line: str, before: list[str], form: Form) -> tuple[str, str, int] | None:
    """(marks, heading, number of previous lines that belong to it), if the line makes one."""
    if form.marked and (marked := form.marked.fullmatch(line)):
        if (
            form.alone
            and before
            and before[-1].strip()
            and not before[-1].startswith(("[", "//", ":"))
        ):
            return None
        return marked[1], one_line(marked[2], MAX_HEADING), 0
    under = _UNDERLINE.fullmatch(line) if form.underlined else None
    if (
        under
        and before
        and re.match(r"\w", before[-1])
        and len(before[-1]) <= MAX_HEADING
        and not any(map(str.strip, before[-2:-1]))
    ):
        return under[1], one_line(before[-1], MAX_HEADING), 1
    return None


def _joined(path: list[tuple[int, str]]) -> str:
    return " > ".join(heading for _, heading in path[-3:])


def _pieces(lines: list[str]) -> Iterator[str]:
    """Parts of at most MAX_PASSAGE characters, split before a paragraph if one begins in the second
    half, else at a line."""
    part: list[str] = []
    size = gap = 0  # gap: lines up to the last paragraph's end
    for line in lines:
        if part and size + len(line) + 1 > MAX_PASSAGE:
            end = gap if sum(len(kept) + 1 for kept in part[:gap]) > MAX_PASSAGE // 2 else len(part)
            if text := _text(part[:end]):
                yield text
            part = part[end:]
            size, gap = sum(len(kept) + 1 for kept in part), 0
        part.append(line)
        size += len(line) + 1
        if not line.strip():
            gap = len(part)
    if text := _text(part):
        yield text


def _text(lines: list[str]) -> str:
    """The lines without empty ones around them; "" without any letter or digit."""
    text = "\n".join(lines).strip("\n")
    return text if re.search(r"\w", text) else ""
