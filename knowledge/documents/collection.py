"""All registered folders of documents: adding, listing and removing them, and finding and showing
passages for a target."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from filelock import Timeout

from kevolve_mcp.actions import Action

from ..applicability import applicable, target_fit
from ..errors import DocumentError, PageNotFound
from ..page import Page
from ..search import Hit, PassageHits, TextMatch, rank
from .cleaning import one_line
from .excerpt import excerpt
from .passage_index import PassageMatch
from .proposing import words_of
from .refreshing import refresh
from .registration import Source, check_name, forget, register, reviewed, sources, target_of
from .upkeep import NAMED, Kept, Upkeep
from .views import PREFIX, Listed, Registered, as_page, listed, shown

MAX_HITS = 10  # passages in one answer, to leave room for the library's own pages
PER_DOCUMENT = 4
OF_ONE_FOLDER = 25
RECHECK_S = 2.0
ADD_S = 24 * 3600.0
WAIT_S = 600.0  # for another process that reads the same folder
_PASSAGE = re.compile(r"(.+)@(\d{1,9})")


class Documents:
    """The registrations below `home` (a folder of KEvolve's home; it need not exist). Safe for
    several threads and processes.

    recheck_s: how long a folder counts as unchanged after its files were checked.
    """

    def __init__(self, home: Path, recheck_s: float = RECHECK_S) -> None:
        self.home = home
        self._upkeep = Upkeep(recheck_s)

    def add(
        self,
        folder: Path,
        vendor: str,
        arch: str = "",
        name: str = "",
        progress: Callable[[str], None] = lambda path: None,
    ) -> Registered:
        """Register a folder, or read it again. name: of the registration; default: the target's.
        progress: called with each path that is read. Raises DocumentError and then registers
        nothing new."""
        target = target_of(vendor, arch)
        name = check_name(name or target.replace(":", "-"))
        folder = folder.expanduser().absolute()
        if not folder.is_dir():
            raise DocumentError(
                f"{folder} is not a folder.",
                "Name a folder with Markdown, AsciiDoc, text, HTML or PDF files.",
            )
        source = Source(name, folder.resolve(), target, self.home / name)
        old = next((s for s in sources(self.home)[0] if s.name == name), None)
        if old and (old.folder, old.target) != (source.folder, target):
            raise DocumentError(
                f"{name!r} is registered for {old.target} with the folder {old.folder}.",
                "Choose another name, or remove that registration first.",
                Action("give", setting="name"),
                Action("remove_documents", "removes it", name=name),
            )
        with _taught(source):
            labels = reviewed(source) if old else {}
            source.place.mkdir(parents=True, exist_ok=True)
            state = refresh(source, ADD_S, wait_s=WAIT_S, progress=progress)
            readable = [document for document in state.documents if document.passages]
            if not readable and not old:
                forget(source)
                reasons = "; ".join(f"{d.path}: {d.problem}" for d in state.documents[:NAMED])
                raise DocumentError(
                    f"{folder} has no readable document{f': {reasons}' if reasons else '.'}",
                    "Documents are .md, .adoc, .rst, .txt, .html and .pdf files.",
                )
            register(source, {d.path: labels.get(d.path, d.proposed) for d in readable})
        self._upkeep.forget(name)
        return self._described(source)

    def remove(self, name: str) -> Registered:
        """Remove a registration; the documents stay where they are. Raises PageNotFound,
        DocumentError."""
        source = self._source(name)
        with _taught(source):
            forget(source)
        self._upkeep.forget(name)
        return Registered(source.name, source.target, source.folder, source.review)

    def registered(self) -> tuple[tuple[Registered, ...], tuple[str, ...]]:
        """Return all registrations, and what is wrong with unreadable ones."""
        found, problems = sources(self.home)
        return tuple(self._described(source) for source in found), problems

    def search(
        self,
        terms: Sequence[str],
        signals: Sequence[str] = (),
        target: str = "",
        families: Sequence[str] = (),
    ) -> PassageHits:
        """Return passages for the target that words or signals lead to. Unreadable documents are
        named in the notes, not raised."""
        found, notes = sources(self.home)
        words, hints = [term for term in terms if term not in signals], words_of(signals)
        if not words and not hints:
            return PassageHits(notes=notes)
        pages, matches = dict[str, Page](), dict[str, PassageMatch]()
        for source in found:
            if target_fit([source.target], target) is None:
                continue
            hits, said = self._upkeep.use(source, partial(_matches, source, words, hints))
            notes = (*notes, *said)
            for page, match in hits or ():
                pages[page.id], matches[page.id] = page, match
        best = max((match.score for match in matches.values()), default=0.0) or 1.0
        texts = {
            key: TextMatch(m.score / best, m.terms, m.coverage, "", m.heading)
            for key, m in matches.items()
        }
        chosen = _spread(rank(applicable(pages, signals, target, "", families), texts))
        ranked = tuple(
            replace(hit, snippet=excerpt(matches[hit.id].text, [*words, *hints])) for hit in chosen
        )
        return PassageHits(
            ranked, max((match.coverage for match in matches.values()), default=0.0), notes
        )

    def targets(self) -> tuple[str, ...]:
        """Return the targets for which documents are registered."""
        return tuple(dict.fromkeys(source.target for source in sources(self.home)[0]))

    def names(self, page_id: str) -> bool:
        """Return whether an id has the form of a document or passage id, existing or not."""
        return page_id.startswith(PREFIX)

    def page(self, page_id: str) -> Page:
        """Return a passage ("documents/NAME/FILE@7") or a whole document ("documents/NAME/FILE").
        Raises PageNotFound."""
        name, _, rest = page_id.removeprefix(PREFIX).partition("/")
        source = self._source(name)
        wanted = _PASSAGE.fullmatch(rest)
        slug, number = (wanted[1], int(wanted[2])) if wanted else (rest, 0)

        def find(kept: Kept) -> Page | None:
            document = kept.documents.get(slug)
            passages = kept.index.passages(slug, number) if document and kept.index else []
            return (
                shown(source, document, kept.about(slug), passages, number)
                if document and passages
                else None
            )

        found, notes = self._upkeep.use(source, find)
        if found is None:
            why = f" ({'; '.join(notes)})" if notes else ""
            raise PageNotFound(
                f"there is no {one_line(page_id, 160)!r}{why}.",
                "",
                Action("search_knowledge", "finds passages"),
            )
        return found

    def _source(self, name: str) -> Source:
        found = sources(self.home)[0]
        for source in found:
            if source.name == name:
                return source
        known = ", ".join(source.name for source in found) or "none"
        raise PageNotFound(
            f"no documents are registered as {one_line(name, 60)!r}.", f"Registered: {known}."
        )

    def _described(self, source: Source) -> Registered:
        def each(kept: Kept) -> tuple[Listed, ...]:
            documents = sorted(kept.documents.values(), key=lambda document: document.path)
            return tuple(
                listed(source, d, kept.about(d.slug), reviewed=d.path in kept.labels)
                for d in documents
            )

        documents, notes = self._upkeep.use(source, each)
        return Registered(
            source.name, source.target, source.folder, source.review, documents or (), notes
        )


def _matches(
    source: Source, words: Sequence[str], hints: Sequence[str], kept: Kept
) -> list[tuple[Page, PassageMatch]]:
    """Each matching passage of the folder, as a page that can be ranked with the others."""
    found = []
    for match in kept.index.search(words, hints, OF_ONE_FOLDER) if kept.index else ():
        if match.slug not in kept.documents:  # another process has changed it since
            continue
        document = kept.documents[match.slug]
        page = as_page(source, document, kept.about(match.slug), "", match.number)
        found.append((page, match))
    return found


def _spread(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The best MAX_HITS hits, at most PER_DOCUMENT of one document while others have some."""
    counts = Counter[str]()
    first, later = list[Hit](), list[Hit]()
    for hit in hits:
        document = hit.id.rpartition("@")[0]
        counts[document] += 1
        (first if counts[document] <= PER_DOCUMENT else later).append(hit)
    chosen = set((first + later)[:MAX_HITS])
    return tuple(hit for hit in hits if hit in chosen)


@contextmanager
def _taught(source: Source) -> Iterator[None]:
    """Turn errors of files and databases into DocumentError."""
    try:
        yield
    except Timeout:
        raise DocumentError(
            f"another process is reading the documents {source.name!r}.",
            "Wait for it, then run this again.",
        ) from None
    except (OSError, sqlite3.OperationalError) as error:
        raise DocumentError(
            f"{source.place} cannot be written: {error}.",
            "KEVOLVE_HOME must be a writable folder on a local disk with free space.",
        ) from error
