"""Vectors on a real Chroma server: filled, checked, repaired, shared, and gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from kevolve_mcp.retrieval import Meaning, chroma
from kevolve_mcp.retrieval.models import Encoder
from knowledge import Library, Passage, parse_page
from knowledge.vectors import passages

from .asking import finish, start
from .bag import DIMENSION, Bag, until
from .chroma_server import ChromaServer

pytest.importorskip("chromadb", reason="needs the extra: pip install 'kevolve-mcp[retrieval]'")

PAGE = parse_page(
    "guidance/banks",
    "---\ntitle: Banks\ncategory: guidance\nsummary: Conflicts.\n---\n# Banks\n\nBank conflicts.\n",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    with ChromaServer(tmp_path_factory.mktemp("chroma")) as running:
        yield running


@pytest.fixture
def parts(request: pytest.FixtureRequest) -> list[Passage]:
    """Of each test its own, and so a collection of its own."""
    return [
        Passage(f"guidance/p{n}", request.node.name, f"passage about topic{n} and other{n}")
        for n in range(30)
    ]


class Member:
    """One of a team: with a file of vectors of its own, and a model that counts."""

    def __init__(self, server: ChromaServer, folder: Path) -> None:
        self.bag, self._server, self._folder = Bag(), server, folder
        self._opened = 0

    def ask(self, parts: Sequence[Passage], query: str = "topic7 other7") -> list[str]:
        """The nearest three pages."""
        self._opened += 1
        file = self._folder / f"{id(self)}-{self._opened}.sqlite"
        meaning = Meaning(parts, lambda: Encoder("bag", self.bag), file, self._server.url, 60)
        found = meaning.nearest(query, [passage.page for passage in parts], 3)
        meaning.close()
        assert found.note == ""
        return list(found.pages)

    def made(self, parts: Sequence[Passage]) -> int:
        """How many passages were made into vectors for one question."""
        before = self.bag.asked
        assert self.ask(parts)[0] == "guidance/p7"
        return self.bag.asked - before - 2  # the model's probe and the question


@pytest.fixture
def member(server: ChromaServer, tmp_path: Path) -> Member:
    return Member(server, tmp_path)


def name_of(parts: Sequence[Passage]) -> str:
    return f"kevolve-{chroma.generation(parts, Encoder('bag', Bag()).identity)[:32]}"


def test_it_is_filled_from_the_library_and_read_by_the_next(
    server: ChromaServer, tmp_path: Path
) -> None:
    bags = [Bag(), Bag()]
    hits = []
    for bag in bags:
        library = Library.builtin(
            nearness=lambda parts, bag=bag: Meaning(  # type: ignore[misc]
                parts,
                lambda: Encoder("bag", bag),
                tmp_path / f"{id(bag)}.sqlite",
                server.url,
                wait_s=120,
            )
        )
        found = library.search("shared memory bank conflicts")
        assert any("meaning" in hit.why for hit in found.hits), found.note
        hits.append(found.hits)
        library.close()
    assert hits[0] == hits[1]
    whole = passages(Library.builtin().pages())
    assert bags[0].asked > len(whole) > bags[1].asked == 2
    with chroma.Served(server.url) as held:
        rows = held.collection(name_of(whole)).get()
    assert {row["page"] for row in rows["metadatas"]} == {passage.page for passage in whole}


def test_a_stale_generation_is_not_used(member: Member, parts: list[Passage]) -> None:
    assert member.made(parts) == len(parts)
    changed = [*parts[:-1], Passage("guidance/new", "", "topic7 other7")]
    assert member.ask(changed)[0] == "guidance/new"
    assert name_of(changed) != name_of(parts)
    assert member.made(parts) == 0


def test_a_short_collection_is_completed(
    server: ChromaServer, member: Member, parts: list[Passage]
) -> None:
    assert member.made(parts) == len(parts)
    with chroma.Served(server.url) as held:
        own = held.collection(name_of(parts))
        own.delete(ids=own.get()["ids"][::3])
        assert member.made(parts) == len(parts)
        assert own.count() == len(parts)
    assert member.made(parts) == 0


def test_other_contents_of_the_same_count_are_noticed(
    server: ChromaServer, member: Member, parts: list[Passage]
) -> None:
    with chroma.Served(server.url) as held:
        held.collection(name_of(parts)).add(
            ids=[str(n) for n in range(len(parts))],
            embeddings=np.random.default_rng(0).random((len(parts), 3)),
            metadatas=[{"page": passage.page} for passage in parts],
        )
        assert member.made(parts) == len(parts)
        assert member.made(parts) == 0
        assert held.collection(name_of(parts)).count() == len(parts)


def test_other_vectors_under_the_same_ids_are_noticed(
    server: ChromaServer, member: Member, parts: list[Passage]
) -> None:
    assert member.made(parts) == len(parts)
    with chroma.Served(server.url) as held:
        own = held.collection(name_of(parts))
        own.update(
            ids=own.get()["ids"],
            embeddings=np.random.default_rng(0).random((len(parts), DIMENSION)),
        )
    assert member.made(parts) == len(parts)
    assert member.made(parts) == 0


def test_passages_of_the_same_text_share_a_row(member: Member, parts: list[Passage]) -> None:
    assert member.made([*parts, *parts]) == 2 * len(parts)
    assert member.made([*parts, *parts]) == 0


def test_two_processes_build_at_once(server: ChromaServer, tmp_path: Path) -> None:
    both = [start("bag", tmp_path / f"{n}.sqlite", server.url, 700) for n in range(2)]
    for said in map(finish, both):
        assert said["note"] == ""
        assert said["pages"][0] == "guidance/p7"
    third = start("bag", tmp_path / "third.sqlite", server.url, 700)
    assert finish(third)["pages"][0] == "guidance/p7"
    assert not (tmp_path / "third.sqlite").exists()  # it had nothing to make
    with chroma.Served(server.url) as held:
        assert 700 in [held.collection(name).count() for name in held.names()]


def test_connections_are_made_to_the_server_alone(server: ChromaServer, tmp_path: Path) -> None:
    said = finish(start("bag", tmp_path / "vectors.sqlite", server.url, 30))
    assert said["pages"]
    assert said["connected"]
    assert all(f"'127.0.0.1', {server.port}" in address for address in said["connected"])


def test_a_server_that_went_is_said_once_and_found_again(
    tmp_path: Path, parts: list[Passage]
) -> None:
    with ChromaServer(tmp_path) as own:
        file = tmp_path / "vectors.sqlite"

        def encode(texts: Sequence[str]) -> object:
            if len(texts) > 1:
                own.kill()  # in the middle of the filling
            return Bag()(texts)

        def make(given: Sequence[Passage]) -> Meaning:
            encoder = Encoder("bag", encode)  # type: ignore[arg-type]
            return Meaning([*given, *parts], lambda: encoder, file, own.url, 60, 0)

        library = Library([PAGE], nearness=make)
        first = library.search("bank conflicts")
        assert first.hits[0].id == "guidance/banks"
        assert "vectors cannot be used" in first.note
        for _ in range(3):
            assert library.search("bank conflicts").note == ""
        own.start()
        until(lambda: "meaning" in library.search("bank conflicts").hits[0].why)
        own.kill()
        assert "meaning" in library.search("bank conflicts").hits[0].why  # it was read
        library.close()
        assert own.url in library.search("bank conflicts").note
        library.close()


def test_a_server_that_hangs_does_not_hold_the_search(
    tmp_path: Path, parts: list[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chroma, "HEARTBEAT_S", 0.5)
    with ChromaServer(tmp_path) as own:
        file = tmp_path / "vectors.sqlite"
        meaning = Meaning(parts, lambda: Encoder("bag", Bag()), file, own.url, 60, 0)
        with own.stopped():
            assert "no Chroma server answers" in meaning.nearest("topic7", ["guidance/p7"], 3).note
        until(lambda: "guidance/p7" in meaning.nearest("topic7", ["guidance/p7"], 3).pages)
        meaning.close()
