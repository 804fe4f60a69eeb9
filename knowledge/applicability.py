"""The first stage of retrieval: which pages apply to a target, a language and some signals; pure
functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .page import Page

BESIDES = frozenset({"elementwise", "layout"})


@dataclass(frozen=True)
class Applicable:
    """Why a page applies. fit: from 1 for exactly this architecture to -0.2 for a page about one
    architecture where the query leaves it open. signals, families: those of the query that the page
    is about -> weight in 0..1."""

    page: Page
    fit: float
    # the page's target that matched, or the id of the page that inherits it; "" for pages of all
    # targets
    target: str
    language: str
    signals: dict[str, float]
    families: dict[str, float] = field(default_factory=dict)


def applicable(
    pages: Mapping[str, Page],
    signals: Sequence[str],
    target: str,
    language: str,
    families: Sequence[str] = (),
) -> list[Applicable]:
    """Return every page that applies to the target and the language, in the order given. families:
    those of the task's operators."""
    inherited = _inherited(pages, target)
    rare, telling = _rarity(pages, signals), _shares(pages, families)
    places = []
    for page in pages.values():
        found = target_fit(page.targets, target)
        if found is None and page.id in inherited:
            found = (0.15, f"inherited by {inherited[page.id]}")
        if found is None or (language and page.languages and language not in page.languages):
            continue
        own = {name: weight * rare[name] for name, weight in signal_weights(page, signals).items()}
        about = {name: telling[name] for name in families if name in page.families}
        places.append(
            Applicable(
                page, found[0], found[1], language if language in page.languages else "", own, about
            )
        )
    return places


def target_fit(page_targets: Sequence[str], target: str) -> tuple[float, str] | None:
    """Return (fit, the matching target of the page), or None when the page does not apply to
    `target`.

    A page for a family applies to each of its architectures; a page for an architecture to no other
    one. A query that only names the family leaves the architecture open: pages of all its
    architectures are admitted, but ranked last.
    """
    if not target or not page_targets:
        return 0.0, ""
    family, _, arch = target.partition(":")
    best: tuple[float, str] | None = None
    for own in page_targets:
        own_family, _, own_arch = own.partition(":")
        if own_family != family:
            continue
        if not own_arch:
            fit = 0.15
        elif not arch:
            fit = -0.2
        elif fnmatchcase(arch, own_arch) or fnmatchcase(
            arch.rstrip("af") if arch.startswith("sm_") else arch, own_arch
        ):
            fit = 1.0
        else:
            continue
        if best is None or fit > best[0]:
            best = (fit, own)
    return best


def signal_weights(page: Page, signals: Sequence[str]) -> dict[str, float]:
    """Return the weight of each of the query's signals on this page. Earlier signals of the query
    count more (the first is the dominant finding), as do pages about few signals; `compile_error.x`
    also finds pages of `compile_error` and vice versa, at half the weight."""
    weights: dict[str, float] = {}
    for rank, signal in enumerate(dict.fromkeys(signals)):
        if signal in page.signals:
            match = 1.0
        elif any(
            signal.startswith(f"{own}.") or own.startswith(f"{signal}.") for own in page.signals
        ):
            match = 0.5
        else:
            continue
        position = page.signals.index(signal) if match == 1.0 else 0
        focus = 0.6 + 0.1 / len(page.signals) + 0.3 / (1 + position)
        weights[signal] = match * focus / (1 + 0.3 * rank)
    return weights


def _rarity(pages: Mapping[str, Page], signals: Sequence[str]) -> dict[str, float]:
    """The rarity of each signal: 1 if a single page names it, less the more pages do (a logarithm
    of the share, as in BM25)."""
    counts = {
        name: sum(bool(signal_weights(page, [name])) for page in pages.values()) for name in signals
    }
    return {name: _rare(count, len(pages)) ** 0.5 for name, count in counts.items()}


def _shares(pages: Mapping[str, Page], families: Sequence[str]) -> dict[str, float]:
    """The weight of each family: its rarity, divided by the square root of the number of families
    of the task. A family of nearly every task counts half where there are others."""
    besides = BESIDES if set(families) - BESIDES else frozenset[str]()
    return {
        name: _rare(sum(name in page.families for page in pages.values()), len(pages))
        / max(1, len(families)) ** 0.5
        / (2 if name in besides else 1)
        for name in families
    }


def _rare(count: int, total: int) -> float:
    return math.log((total + 1) / max(1, count)) / math.log(total + 1) if total else 0.0


def _inherited(pages: Mapping[str, Page], target: str) -> dict[str, str]:
    """The id of each page that an admitted architecture page inherits -> that page's id. Only broad
    pages are inherited, never the reverse."""
    found: dict[str, str] = {}
    if not target:
        return found
    heirs = [
        page
        for page in pages.values()
        if page.targets and target_fit(page.targets, target) is not None
    ]
    while heirs:
        heir = heirs.pop()
        for parent in heir.inherits:
            if parent in pages and parent not in found:
                found[parent] = heir.id
                heirs.append(pages[parent])
    return found
