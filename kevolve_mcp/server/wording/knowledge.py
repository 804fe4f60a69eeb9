"""What was found, and pages."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.synthesis.wording import number

from ..phrase import Phrase


def _place(hit: api.Hit) -> str:
    return f"[{hit.section}] " if hit.section else ""


def hits(found: api.Hits) -> Phrase:
    lines = [f"note: {found.note}"] if found.note else []
    lines += [
        f"- {h.id}: {h.title} ({h.category}; {h.why})\n  {_place(h)}{h.snippet}" for h in found.hits
    ]
    index = Action("read_page", "lists all pages", page="index")
    if not found.hits:
        return Phrase("No page matches", lines, (index,))
    if not found.fits:
        return Phrase("No page on this; the nearest follow", lines, (index,))
    actions = [Action("read_page", page=found.hits[0].id)]
    if found.next_cursor is not None:
        more = f"with the same arguments has {found.total - found.next_cursor} more"
        actions.append(Action("search_knowledge", more, cursor=found.next_cursor))
    links = [(f"kevolve://knowledge/{h.id}", h.title, "text/markdown") for h in found.hits[:3]]
    return Phrase(
        f"{number(found.total, 'page')}; reference material, best first",
        lines,
        tuple(actions),
        links=links,
    )


def page(view: api.Page) -> Phrase:
    more = view.next_offset is not None
    actions = (Action("read_page", "goes on", page=view.id, cursor=view.next_offset or 0),)
    return Phrase(
        f"{view.id}: {view.title} (reference material)", [view.text], actions if more else ()
    )
