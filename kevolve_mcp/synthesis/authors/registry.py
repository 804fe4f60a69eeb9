"""Authors by name: the built-in ones and those of the entry point group "kevolve.authors"."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from kevolve_mcp.errors import NotFound, UsageError

from .base import Author
from .offline import OfflineAuthor

GROUP = "kevolve.authors"
_BUILT_IN: dict[str, Callable[..., Author]] = {OfflineAuthor.name: OfflineAuthor}


def author_names() -> tuple[str, ...]:
    """All names that `make_author` accepts, sorted."""
    return tuple(sorted({*_BUILT_IN, *(e.name for e in entry_points(group=GROUP))}))


def make_author(name: str, **options: Any) -> Author:
    """The author of that name; options go to its constructor. Raises NotFound for an unknown name, UsageError when a
    third-party entry point does not give an Author."""
    factory: Callable[..., Any] | None = _BUILT_IN.get(name)
    if factory is None:
        found = [e for e in entry_points(group=GROUP) if e.name == name]
        if not found:
            raise NotFound(f"no author is called {name!r}", f"Known authors: {', '.join(author_names())}.")
        factory = found[0].load()
    author = factory(**options)
    if not isinstance(author, Author):
        raise UsageError(
            f"the entry point {name!r} of {GROUP} gives {type(author).__name__}, not an Author",
            "It must name a subclass of kevolve_mcp.synthesis.authors.Author.",
        )
    return author
