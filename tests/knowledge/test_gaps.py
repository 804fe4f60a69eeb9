"""Counting what was asked and not found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge import Gaps
from knowledge.gaps import MAX_WORDS, words_of

SOURCE = (
    "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    "        return secret_sauce(x) * 2\n"
)


@pytest.fixture
def gaps(tmp_path: Path) -> Gaps:
    return Gaps(tmp_path / "home" / "gaps.db")


def test_equal_questions_are_counted_and_the_most_asked_come_first(gaps: Gaps) -> None:
    assert gaps.listed() == ()
    gaps.record("zorble latency", (), "acme:x1")
    for query in ("the wibble counter", "counter of a WIBBLE"):
        gaps.record(query, ["memory_bound"], "acme:x1")
    first, second = gaps.listed()
    assert (first.words, first.signals, first.target, first.count) == (
        ("counter", "wibble"),
        ("memory_bound",),
        "acme:x1",
        2,
    )
    assert first.first <= first.last
    assert second.words == ("latency", "zorble")
    assert gaps.listed(1) == (first,)


@pytest.mark.parametrize(
    "query",
    [SOURCE, "x = y; z", " ".join(f"word{n}" for n in range(40)), "secret_sauce(x)", "s" * 500],
)
def test_texts_are_counted_without_their_words(gaps: Gaps, query: str) -> None:
    gaps.record(query, ["memory_bound"], "cpu")
    (gap,) = gaps.listed()
    assert (gap.words, gap.signals) == ((), ("memory_bound",))
    assert b"secret" not in gaps.path.read_bytes()


def test_words_are_few_and_plain() -> None:
    assert len(words_of(" ".join(f"word{n}" for n in range(20)))) == MAX_WORDS
    assert words_of("zorble \x1b[31m /home/me/x.py " + "y" * 40) == ("zorble",)


def test_a_question_of_nothing_is_not_counted(gaps: Gaps) -> None:
    gaps.record(SOURCE, (), "")
    assert gaps.listed() == ()


def test_the_file_is_bounded_and_keeps_what_is_asked_often(
    gaps: Gaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge.gaps.MAX_ROWS", 30)
    for _ in range(3):
        gaps.record("often", (), "cpu")
    for n in range(50):
        gaps.record(f"once{n}", (), "cpu")
    found = gaps.listed(5000)
    assert len(found) == 30
    assert found[0].words == ("often",)
    assert any(gap.words == ("once49",) for gap in found), "the newest question stays"


def test_a_damaged_file_is_begun_anew(gaps: Gaps) -> None:
    gaps.record("before", (), "cpu")
    gaps.path.write_bytes(b"no database" * 500)
    gaps.record("after", (), "cpu")
    assert [gap.words for gap in gaps.listed()] == [("after",)]


def test_several_processes_count_together(gaps: Gaps) -> None:
    program = (
        "import sys; from pathlib import Path; from knowledge import Gaps\n"
        "for n in range(25): Gaps(Path(sys.argv[1])).record('zorble', (), 'cpu')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(gaps.path)], env=environment)
        for _ in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert [gap.count for gap in gaps.listed()] == [75]
