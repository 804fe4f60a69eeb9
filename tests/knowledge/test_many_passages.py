"""Thousands of passages: nothing is lost, nothing wrong is returned. How long it takes:
benchmarks/passages.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from knowledge import Documents

from .making import folder

SECTIONS = 250  # of one document


@pytest.mark.parametrize("passages", [20_000, pytest.param(100_000, marks=pytest.mark.proof)])
def test_each_name_is_found_where_it_stands(tmp_path: Path, passages: int) -> None:
    drawn = random.Random(7)
    words = [f"w{n}" for n in range(500)]
    manuals = folder(tmp_path)
    for number in range(passages // SECTIONS):
        sections = [
            f"## Part {n}\n\n{' '.join(drawn.choices(words, k=40))} name{number}x{n}\n"
            for n in range(SECTIONS)
        ]
        (manuals / f"manual{number}.md").write_text(f"# Manual {number}\n\n" + "\n".join(sections))
    documents = Documents(tmp_path / "home")
    added = documents.add(manuals, "acme", "x1")
    assert sum(d.passages for d in added.documents) == passages
    for _ in range(30):
        number, part = drawn.randrange(passages // SECTIONS), drawn.randrange(SECTIONS)
        (hit, *_) = documents.search([f"name{number}x{part}"], target="acme:x1").hits
        assert hit.id == f"documents/acme-x1/manual{number}.md@{part + 1}"
        assert f"name{number}x{part}\n" in documents.page(hit.id).body
    assert not documents.search(["name99999x0"], target="acme:x1").hits
