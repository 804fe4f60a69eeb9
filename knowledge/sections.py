"""Sections: the self-contained parts of a page, the unit that is searched and shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FENCES = ("```", "~~~")


@dataclass(frozen=True)
class Section:
    """A section. heading: without its marks; "" for the part before the first `##`. text: with its
    heading line. offset: in the page's body."""

    heading: str
    text: str
    offset: int


def split(body: str) -> tuple[Section, ...]:
    """Return the sections of a page's Markdown in order: split at `##`, not inside code."""
    return tuple(section for section in _sections(body) if section.text.strip())


def _sections(body: str) -> Iterator[Section]:
    heading, start, offset, inside = "", 0, 0, False
    for line in body.splitlines(keepends=True):
        if line.startswith(FENCES):
            inside = not inside
        elif line.startswith("## ") and not inside:
            yield Section(heading, body[start:offset], start)
            heading, start = line[3:].strip(), offset
        offset += len(line)
    yield Section(heading, body[start:], start)
