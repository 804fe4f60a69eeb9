"""The sections of a text and how they share a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# the usual rule of thumb for English and code; an estimate, not a tokenizer
CHARACTERS_PER_TOKEN = 4
MORE = "read the ask again with a larger token limit"


@dataclass(frozen=True)
class AskSection:
    """One section. give: sections with a higher number are cut first. least: characters that are
    always kept (0: it may be dropped). rest: how to read what was cut. key: its content as `shown`
    names it; "" for content of a single ask."""

    title: str
    body: str
    give: int
    least: int = 0
    rest: str = ""
    key: str = ""

    @property
    def text(self) -> str:
        return f"## {self.title}\n{self.body}"


def estimate_tokens(text: str) -> int:
    """Return characters / 4, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True)
class Assembled:
    """A text made of sections. cuts: one line for each section that was shortened or dropped. held:
    keys of sections of which at least half is kept."""

    text: str
    cuts: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def assemble(sections: Sequence[AskSection], max_tokens: int) -> Assembled:
    """Return the joined text, at most `max_tokens` long by the estimate."""
    limit = max_tokens * CHARACTERS_PER_TOKEN
    kept: list[str] = [s.text for s in sections]
    cuts: dict[int, str] = {}
    for index in sorted(range(len(sections)), key=lambda i: -sections[i].give):
        over = len(_joined(kept, cuts.values())) - limit
        if over <= 0:
            break
        kept[index], line = _shorten(sections[index], over)
        cuts[index] = line
    lines = tuple(cuts[i] for i in sorted(cuts))
    text = _joined(kept, lines)
    # even the shortest form does not fit: keep the head, which is the request itself
    if len(text) > limit:
        mark = f"\n… cut: {MORE}"
        return Assembled(
            text[: limit - len(mark)] + mark, (*lines, f"the whole text was cut at its end; {MORE}")
        )
    keys = tuple(
        s.key
        for s, left in zip(sections, kept, strict=True)
        if s.key and 2 * len(left) >= len(s.text)
    )
    return Assembled(text, lines, keys)


def _joined(kept: Iterable[str], cuts: Iterable[str]) -> str:
    body = "\n\n".join(k for k in kept if k)
    lines = list(cuts)
    return body + (
        "\n\n## Left out to stay within the requested size\n"
        + "\n".join(f"- {line}" for line in lines)
        if lines
        else ""
    )


def _shorten(section: AskSection, over: int) -> tuple[str, str]:
    """The section shortened by about `over` characters plus the line that announces it."""
    rest = section.rest or MORE
    line = f"{section.title}: {{}}; {rest}"
    # 100: for the mark and the heading of the list of cuts
    room = len(section.text) - over - len(line) - 100
    if room < max(section.least, 200):
        room = section.least
    if room <= 0 or len(section.text) - room < 40:
        return (
            ("", line.format("left out"))
            if room <= 0
            else (section.text, line.format("kept whole"))
        )
    head = section.text[:room].rsplit("\n", 1)[0]
    missing = len(section.text) - len(head)
    return f"{head}\n… {missing} characters cut", line.format(f"{missing} characters cut")
