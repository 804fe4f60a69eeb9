"""The offline author: every role, the end, and a whole search on a known surface."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.types import Candidate, from_json, to_json
from kevolve_mcp.errors import NotFound
from kevolve_mcp.synthesis import ParentView, StartView, TaskFacts, structure_digest
from kevolve_mcp.synthesis.authors import (
    AskContext,
    Author,
    Exhausted,
    OfflineAuthor,
    Proposal,
    author_names,
    make_author,
)

from .helpers import TUNABLE, ask, landscape, parent, rmsnorm_task, row

AUTHOR = OfflineAuthor()


def proposed(context: AskContext) -> Proposal:
    return asyncio.run(AUTHOR.propose(context))


def test_a_start_is_answered_with_its_source() -> None:
    answer = proposed(ask("start", start=StartView("text", "user file", "given")))
    assert (answer.source, answer.language) == ("text", "cpp")
    assert "user file" in answer.rationale


def test_tune_changes_parameters_only_and_names_them() -> None:
    answer = proposed(ask("tune", parent(1, TUNABLE)))
    child = Candidate(answer.source, "cpp")
    assert structure_digest(child) == structure_digest(Candidate(TUNABLE, "cpp"))
    assert child.params() != Candidate(TUNABLE, "cpp").params()
    assert "->" in answer.hypothesis
    assert "n1" in answer.hypothesis


def test_improve_first_tries_what_all_parameters_together_can_do() -> None:
    child = Candidate(proposed(ask("improve", parent(1, TUNABLE))).source, "cpp")
    assert child.params() == {"UNROLL": 8, "WIDTH": 512, "PASSES": 2}


def test_improve_switches_the_structure_of_a_parent_that_was_varied() -> None:
    varied = row(
        Candidate(TUNABLE, "cpp").with_params({"UNROLL": 8, "WIDTH": 128, "PASSES": 1}), 1.0
    )
    child = Candidate(proposed(ask("improve", parent(1, TUNABLE), history=(varied,))).source, "cpp")
    assert child.params() == {"UNROLL": 1, "WIDTH": 128, "PASSES": 2}


def test_improve_falls_back_to_tuning_when_the_switches_are_tried() -> None:
    tried = row(
        Candidate(TUNABLE, "cpp").with_params({"UNROLL": 1, "WIDTH": 128, "PASSES": 2}), 1.0
    )
    child = Candidate(proposed(ask("improve", parent(1, TUNABLE), history=(tried,))).source, "cpp")
    assert child.params() not in (tried.params, Candidate(TUNABLE, "cpp").params())


def test_crossover_mixes_parameters_of_one_structure() -> None:
    first = Candidate(TUNABLE, "cpp").with_params({"UNROLL": 8, "WIDTH": 128, "PASSES": 2}).source
    second = Candidate(TUNABLE, "cpp").with_params({"UNROLL": 1, "WIDTH": 512, "PASSES": 2}).source
    params = Candidate(
        proposed(ask("crossover", parent(1, first, 1.5), parent(2, second, 1.2))).source, "cpp"
    ).params()
    assert params in (
        {"UNROLL": 8, "WIDTH": 512, "PASSES": 2},
        {"UNROLL": 1, "WIDTH": 128, "PASSES": 2},
    )


def test_crossover_of_two_structures_keeps_the_better_text() -> None:
    better = TUNABLE + "# the better structure\n"
    worse = Candidate(TUNABLE, "cpp").with_params({"UNROLL": 4, "WIDTH": 128, "PASSES": 1}).source
    answer = proposed(ask("crossover", parent(1, worse, 1.1), parent(2, better, 1.9)))
    assert "the better structure" in answer.source
    assert Candidate(answer.source, "cpp").params()["UNROLL"] == 4


def test_draft_instantiates_a_skill_once() -> None:
    facts = TaskFacts.of(rmsnorm_task())
    first = proposed(ask("draft", task=facts))
    assert "row_normalization" in first.hypothesis
    tried = row(Candidate(first.source, "cpp"), 1.4)
    with pytest.raises(Exhausted) as caught:
        proposed(ask("draft", task=facts, history=(tried,)))
    assert "TUNABLES" in caught.value.hint


def test_draft_varies_the_best_node_when_no_skill_fits() -> None:
    child = Candidate(proposed(ask("draft", best=parent(3, TUNABLE, 1.7))).source, "cpp")
    assert child.params() != Candidate(TUNABLE, "cpp").params()


@pytest.mark.parametrize("role", ["tune", "improve", "repair", "draft", "crossover"])
def test_nothing_left_is_said(role: str) -> None:
    with pytest.raises(Exhausted) as caught:
        proposed(ask(role, ParentView("n1", "this is not Python (", "invalid")))
    assert caught.value.hint


def test_the_same_ask_gives_the_same_answer() -> None:
    context = ask("tune", parent(1, TUNABLE), seed=9)
    assert proposed(context) == proposed(AskContext.parse(context.as_json()))


def test_it_walks_a_surface_to_its_optimum() -> None:
    """Greedy: always the best node so far, tune and improve in turn."""
    start = Candidate(TUNABLE, "cpp")
    rows, best = [row(start, landscape(start.params()))], (landscape(start.params()), TUNABLE)
    for step in range(23):
        role = "improve" if step % 4 == 3 else "tune"
        answer = AUTHOR.answer(
            ask(role, parent(1, best[1], best[0]), history=tuple(rows), seed=step)
        )
        child = Candidate(answer.source, "cpp")
        assert child.digest not in {r.candidate for r in rows}
        reached = landscape(child.params())
        rows.append(row(child, reached, step + 2))
        best = max(best, (reached, child.source))
    assert best[0] == pytest.approx(2.4)


def test_registry() -> None:
    assert "offline" in author_names()
    assert isinstance(make_author("offline"), Author)
    with pytest.raises(NotFound, match="nobody") as caught:
        make_author("nobody")
    assert "offline" in caught.value.hint


def test_asks_survive_json() -> None:
    context = ask(
        "start",
        parent(1, TUNABLE),
        start=StartView("x", "user file"),
        history=(row(Candidate(TUNABLE, "cpp"), 0.0),),
    )
    assert from_json(AskContext, to_json(context)) == context
    assert AskContext.parse(context.as_json()) == context
    empty = ParentView("n2", "", "invalid", 0.0, params={"FLAG": "", "ON": False})
    assert AskContext.parse(ask("repair", empty).as_json()).parents == (empty,)
    assert "text" not in context.as_json()
    facts = TaskFacts.of(rmsnorm_task())
    assert facts.as_task().cases[0].inputs[0].shape == (32, 4096)
    assert facts.as_task().cases[0].inputs[0].stride == (4096, 1)
    assert "secret_case" not in str(facts)


def test_authors_import_nothing_above_synthesis() -> None:
    folder = Path(__file__).parents[2] / "kevolve_mcp" / "synthesis"
    for file in folder.rglob("*.py"):
        for floor in ("sessions", "driver", "server", "cli", "executors", "store", "export"):
            assert f"kevolve_mcp.{floor}" not in file.read_text(), file
