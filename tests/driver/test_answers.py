"""Reading structured content: what is new is ignored, what is wrong is named."""

from __future__ import annotations

import pytest

from harness.types import Budget, CaseResult, Spent, to_json
from kevolve_mcp import api
from kevolve_mcp.driver import Told, UnreadableAnswer
from kevolve_mcp.driver.answers import read

NODE = api.Node("n1", (), "correct", 1.5, interval=(1.4, 1.6), signals=("memory_bound",))


def test_fields_that_the_driver_does_not_know_are_dropped_at_every_level() -> None:
    evaluation = api.Evaluation(
        id="e1",
        fitness=1.5,
        signals=(api.Signal("memory_bound"),),
        cases=(CaseResult("small", correct=True, baselines={"compile": 100.0}),),
    )
    data = to_json(api.Evaluated("submit", evaluation, "s-1", NODE, NODE, True))
    answer = read(Told, {**data, "something_new": 1})
    assert answer.node.fitness == 1.5
    assert answer.evaluation.cases[0].baselines == {"compile": 100.0}
    assert answer.new_best


def test_a_session_view_reads_whole() -> None:
    view = api.Session(
        "s-1",
        "open",
        "rows",
        "cpu",
        "cpp",
        "best",
        "greedy",
        budget=Budget(evaluations=20),
        spent=Spent(3),
        best=NODE,
    )
    session = read(api.Session, to_json(view))
    assert session.budget.evaluations == 20
    assert session.spent.evaluations == 3
    assert session.best is not None
    assert session.best.id == "n1"


def test_an_answer_that_does_not_fit_names_the_field() -> None:
    with pytest.raises(UnreadableAnswer, match=r"session_open.*Node\.id"):
        read(api.Node, {"id": 3, "status": "correct"}, "session_open")


def test_no_answer_is_an_error_in_words() -> None:
    with pytest.raises(UnreadableAnswer, match="expected an object"):
        read(api.Session, None)
