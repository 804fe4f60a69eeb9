"""Closeness by meaning, through the seam that the library offers: with a small fake, and without
any."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from knowledge import Library, Near, Neighbours, Passage, parse_page, sections


class Told:
    """Neighbours that a test names: page id -> closeness."""

    def __init__(self, near: dict[str, float], *, strange: bool = False, note: str = "") -> None:
        self.near, self.strange, self.note = near, strange, note
        self.asked: list[str] = []
        self.passages: Sequence[Passage] = ()
        self.closed = False

    def __call__(self, passages: Sequence[Passage]) -> Told:
        self.passages = passages
        return self

    def nearest(self, query: str, pages: Collection[str], limit: int) -> Neighbours:
        self.asked.append(query)
        found = {page: Near(close, "") for page, close in self.near.items() if page in pages}
        return Neighbours(found, self.strange, self.note)

    def close(self) -> None:
        self.closed = True


def page(name: str, words: str, rest: str = "") -> str:
    front = f"---\ntitle: {name}\ncategory: guidance\nsummary: About {words}.\n{rest}---\n"
    return f"{front}# {name}\n\nText on {words}.\n\n## Verify\n\nLook at {words}.\n"


APPLES = page("Apples", "apples", "asked_as: [red fruit]\n")
PEARS = page("Pears", "pears")
GPU = page("Device", "devices", 'applies_to: {targets: ["cuda"]}\n')


def small(told: Told | None = None) -> Library:
    return Library(
        [
            parse_page(f"guidance/{n}", t)
            for n, t in (("apples", APPLES), ("pears", PEARS), ("gpu", GPU))
        ],
        nearness=told,
    )


def ids(library: Library, query: str, **known: str) -> list[str]:
    return [hit.id for hit in library.search(query, **known).hits]  # type: ignore[arg-type]


def test_meaning_brings_in_a_page_that_shares_no_word() -> None:
    assert ids(small(), "apples") == ["guidance/apples"]
    found = small(Told({"guidance/pears": 0.7})).search("apples").hits
    assert [hit.id for hit in found] == ["guidance/apples", "guidance/pears"]
    assert found[1].why == "meaning: 0.70"
    assert found[1].score == 0.0
    assert found[1].snippet == "About pears."


def test_a_page_that_both_ways_find_comes_before_one_of_words_alone() -> None:
    words = "look at red pears"
    assert ids(small(), words)[:2] == ["guidance/pears", "guidance/apples"]
    assert ids(small(Told({"guidance/apples": 0.9})), words)[:2] == [
        "guidance/apples",
        "guidance/pears",
    ]


def test_meaning_stays_on_the_shelf() -> None:
    told = Told({"guidance/gpu": 0.9})
    assert "guidance/gpu" in ids(small(told), "apples", target="cuda")
    assert "guidance/gpu" not in ids(small(told), "apples", target="cpu")


def test_signals_alone_do_not_ask_for_meaning() -> None:
    told = Told({"guidance/pears": 0.9})
    small(told).search(signals=["memory_bound"])
    small(told).search()
    assert told.asked == []


def test_what_is_strange_to_the_model_is_doubted() -> None:
    words = "text on apples"
    assert (
        "matches these words well" not in small(Told({"guidance/apples": 0.9})).search(words).note
    )
    assert (
        "matches these words well"
        in small(Told({"guidance/apples": 0.1}, strange=True)).search(words).note
    )


def test_a_page_found_by_meaning_alone_is_doubted() -> None:
    assert "matches these words well" in small(Told({"guidance/apples": 0.5})).search("zzz").note


def test_why_there_are_no_vectors_reaches_the_reader() -> None:
    found = small(Told({}, note="vectors are still being prepared")).search("apples")
    assert [hit.id for hit in found.hits] == ["guidance/apples"]
    assert "still being prepared" in found.note


def test_passages_are_heads_phrases_and_sections() -> None:
    told = Told({})
    library = small(told)
    apples = [passage for passage in told.passages if passage.page == "guidance/apples"]
    assert [passage.section for passage in apples] == ["", "", "", "Verify"]
    assert apples[1].text == "red fruit"
    assert apples[3].text.startswith("Apples: Verify")
    headings = {part.heading for part in sections.split(library.page("guidance/apples").body)}
    assert {passage.section for passage in apples} == headings


def test_an_extended_library_keeps_its_vectors_and_closing_frees_them() -> None:
    told = Told({"guidance/more": 0.9})
    more = small(told).extended(pages=[parse_page("guidance/more", page("More", "plums"))])
    assert "guidance/more" in {passage.page for passage in told.passages}
    assert "guidance/more" in ids(more, "apples")
    more.close()
    assert told.closed
