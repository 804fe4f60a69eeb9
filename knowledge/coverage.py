"""What the pages cover: `python -m knowledge.coverage` prints how many pages each signal and each
operator family leads to, by vendor and language. Empty cells show what to write next."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .applicability import target_fit
from .families import FAMILIES
from .library import Library
from .page import Page

PLACES = {
    "cpu, cpp": ("cpu", "cpp"),
    "nvidia, triton": ("cuda:sm_90", "triton"),
    "nvidia, cuda": ("cuda:sm_90", "cuda"),
    "amd, triton": ("hip:gfx942", "triton"),
}
"""Column -> a usual target and the language."""


def holds(page: Page, target: str, language: str) -> bool:
    """Return whether a page is about a target and a language, or about all of them."""
    return target_fit(page.targets, target) is not None and (
        not page.languages or language in page.languages
    )


def by_signal(library: Library) -> dict[str, dict[str, int]]:
    """Return the number of pages by signal and column."""
    names = sorted({signal for page in library.pages() for signal in page.signals})
    return {
        name: _counts(library.pages(), lambda page, n=name: n in page.signals)  # type: ignore[misc]
        for name in names
    }


def by_family(library: Library) -> dict[str, dict[str, int]]:
    """Return the number of pages by operator family and column."""
    return {
        name: _counts(library.pages(), lambda page, n=name: n in page.families)  # type: ignore[misc]
        for name in sorted(FAMILIES)
    }


def _counts(pages: Iterable[Page], about: Callable[[Page], bool]) -> dict[str, int]:
    chosen = [page for page in pages if about(page)]
    return {column: sum(holds(page, *place) for page in chosen) for column, place in PLACES.items()}


def render(library: Library) -> str:
    """Return both tables as Markdown."""
    lines = []
    for heading, table in (("signal", by_signal(library)), ("operator family", by_family(library))):
        lines += [f"| {heading} | {' | '.join(PLACES)} |", f"| --- |{' ---: |' * len(PLACES)}"]
        lines += [
            f"| {name} | {' | '.join(str(counts[c] or '-') for c in PLACES)} |"
            for name, counts in table.items()
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(Library.builtin()))
