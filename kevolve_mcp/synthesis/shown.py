"""What an author was given before, so that asks refer to it instead of repeating it.

An ask's text ends with a line that names its full contents; the same keys are stored with the ask.
Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kevolve_mcp.actions import Action, Say

from .layout import AskSection

OWN = ""  # in place of an ask: the author itself wrote the text
LEARNED = "skills/learned/"  # prefix of the ids of skills that searches of this home learned


def source_key(node: str) -> str:
    return f"source of {node}"


def page_key(page_id: str) -> str:
    return f"page {page_id}"


START = "starting kernel"


def line(keys: Iterable[str]) -> str:
    """Return the last line of an ask with these contents, "" for none."""
    named = ", ".join(keys)
    return f"Given above; later asks only refer to it: {named}." if named else ""


def references(
    sections: Iterable[AskSection],
    pages: Iterable[str],
    had: Mapping[str, str],
    session: str,
    say: Say,
) -> AskSection | None:
    """Return where to find the sections and pages that an author `had` (key -> id of the ask that
    contained it, or OWN)."""
    own, by_ask = list[AskSection](), dict[str, list[AskSection]]()
    for section in sections:
        if had[section.key] == OWN:
            own.append(section)
        else:
            by_ask.setdefault(had[section.key], []).append(section)
    lines = [
        f"- in ask {ask}: {'; '.join(s.title for s in group)}. "
        + _again(group, say(Action("next_ask", session=session, ask=ask)))
        for ask, group in by_ask.items()
    ]
    if own:
        lines.append(
            f"- submitted by you: {'; '.join(s.title for s in own)}. " + _again(own, own[0].rest)
        )
    known = [f"{page} (ask {had[page_key(page)]})" for page in pages]
    if known:
        lines.append(
            f"- pages that still apply: {', '.join(known)}. {say(Action('read_page'))} shows one "
            "again."
        )
    return (
        AskSection("Not repeated here", "\n".join(lines), give=1, least=10_000) if lines else None
    )


def _again(sections: list[AskSection], otherwise: str) -> str:
    """The call that shows them again: for a single section its own, if it has one."""
    call = sections[0].rest if len(sections) == 1 and sections[0].rest else otherwise
    return f"{call} shows {'it' if len(sections) == 1 else 'them'} again."
