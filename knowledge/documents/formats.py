"""HTML and PDF as Markdown: headings, paragraphs, code. Runs in the reader process (extractor.py),
since such files may be malicious."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

MAX_TEXT = 50_000_000  # characters of one document
MISSING = "pip install 'kevolve-mcp[documents]'"

_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_DROPPED = [
    "script",
    "style",
    "template",
    "noscript",
    "nav",
    "svg",
    "head",
    "iframe",
    "object",
    "button",
    "form",
]
_BLOCKS = _HEADINGS | {
    "p", "div", "section", "article", "main", "li", "ul", "ol", "dl", "dt", "dd", "table", "tr",
    "pre", "blockquote", "br", "hr", "figure", "caption", "figcaption", "header", "footer", "aside",
    "details", "summary",
}  # fmt: skip
_LOOKS_LIKE_OURS = re.compile(r"^(?=#|```|~~~)", re.MULTILINE)


class Unreadable(Exception):
    """A file without readable text; the message for the user says why."""


def html(data: bytes) -> str:
    """Return the visible text with its headings. Raises Unreadable."""
    try:
        from bs4 import BeautifulSoup, Comment, Tag
    except ImportError:
        raise Unreadable(f"HTML needs a library that is not installed: {MISSING}") from None
    soup = BeautifulSoup(data, "html.parser")
    for tag in soup.find_all(_DROPPED) + soup.find_all(hidden=True):
        if not tag.decomposed:
            tag.decompose()
    parts: list[str] = []
    heading: Any = None
    for node in soup.descendants:  # in the order of the text, without recursion
        if isinstance(node, Tag):
            if node.name in _HEADINGS:
                parts.append(
                    f"\n\n{'#' * int(node.name[1])} {' '.join(node.get_text(' ').split())}\n\n"
                )
                heading = node
            elif node.name in ("td", "th"):
                parts.append(" | ")
            elif node.name in _BLOCKS:
                parts.append("\n" if node.name in ("br", "li", "tr", "dt", "dd") else "\n\n")
        elif not isinstance(node, Comment) and type(node).__name__ == "NavigableString":
            if any(parent is heading for parent in node.parents):
                continue
            verbatim = node.find_parent("pre") is not None
            parts.append(_plain(str(node)) if verbatim else _plain(re.sub(r"\s+", " ", str(node))))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))[:MAX_TEXT]


def pdf(data: bytes) -> str:
    """Return the text of each page below its number and the entries of the table of contents for
    it. Raises Unreadable."""
    try:
        import pypdf
        from pypdf.errors import PyPdfError
    except ImportError:
        raise Unreadable(f"PDF needs a library that is not installed: {MISSING}") from None
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted; save it without a password")
        headings = dict[int, list[str]]()
        for depth, title, page in _outline(reader, reader.outline, 1):
            headings.setdefault(page, []).append(f"{'#' * depth} {' '.join(title.split())}")
        parts, size = list[str](), 0
        for number, page in enumerate(reader.pages):
            text = _plain(page.extract_text())
            parts += [*headings.get(number, ()), f"###### page {number + 1}", text]
            size += len(text)
            if size > MAX_TEXT:
                break
    except (
        PyPdfError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        RecursionError,
        ArithmeticError,
    ) as error:
        raise Unreadable(f"not a readable PDF ({type(error).__name__})") from error
    except ImportError:
        raise Unreadable("it is encrypted in a way that needs the library cryptography") from None
    if size < 20:
        raise Unreadable("it has no text: scanned pages need text recognition first")
    return "\n\n".join(parts)


def _outline(reader: Any, entries: list[Any], depth: int) -> Iterator[tuple[int, str, int]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(reader, entry, min(depth + 1, 5))
        elif (page := reader.get_destination_page_number(entry)) is not None:
            yield depth, str(entry.title), page


def _plain(text: str) -> str:
    """The text with lines that Markdown would read as headings or fences indented by one space."""
    return _LOOKS_LIKE_OURS.sub(" ", text)
