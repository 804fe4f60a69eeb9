"""Trajectories and the report of one small tree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.types import Budget, Candidate, Evaluation, Goal, Signal, Spent
from kevolve_mcp.errors import StoreError
from kevolve_mcp.export import (
    SessionFacts,
    Trajectory,
    session_report,
    trajectories,
    write_trajectories,
)
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.provenance import Origin
from kevolve_mcp.search.tree import Ask, Tree

from . import samples

ONE = samples.min_max()
TEXTS = {f"d{i}": Candidate(f"# kernel {i}\n", "cpp") for i in (1, 2, 3, 4)}


def evaluation(status: str, fitness: float | None) -> Evaluation:
    signals = () if status == "correct" else (Signal("wrong.tail", "the last 3 columns"),)
    return replace(
        ONE.evaluation, status=status, fitness=fitness, signals=signals, message=f"it is {status}"
    )  # type: ignore[arg-type]


EVALUATIONS = {
    "e1": evaluation("correct", 1.2),
    "e2": evaluation("incorrect", 0.0),
    "e3": evaluation("correct", 1.8),
    "e4": evaluation("correct", None),
}
TREE = Tree(
    (
        Node(
            "n1",
            1,
            (),
            "d1",
            "e1",
            "correct",
            1.2,
            True,
            role="start",
            origin=Origin("skill", "reductions"),
        ),
        Node(
            "n2",
            2,
            ("n1",),
            "d2",
            "e2",
            "incorrect",
            0.0,
            signals=("wrong.tail",),
            ask=1,
            hypothesis="wider vectors",
        ),
        Node(
            "n3",
            3,
            ("n1", "n2"),
            "d3",
            "e3",
            "correct",
            1.8,
            True,
            ask=2,
            hypothesis="two rows at once",
            predicted_speedup=1.4,
        ),
        Node("n4", 4, (), "d4", "e4", "correct", None, role="draft"),
    ),
    (Ask(1, ("n1",), "parent", "improve"), Ask(2, ("n1", "n2"), "both", "crossover")),
)


def paths() -> tuple[Trajectory, ...]:
    return trajectories(
        TREE,
        session="s-1",
        task="t",
        target="cpu",
        candidates=TEXTS,
        evaluations=EVALUATIONS,
        shown={1: "improve n1", 2: "join n1 and n2"},
    )


def test_one_path_for_each_leaf_failures_included() -> None:
    found = paths()
    assert [(t.leaf, [s.node for s in t.steps], t.best) for t in found] == [
        ("n3", ["n1", "n3"], 1.8),
        ("n4", ["n4"], 0.0),
    ]
    start, last = found[0].steps
    assert (start.context, start.action.origin, start.gain) == ("", "skill: reductions", None)
    assert (last.context, last.action.source, last.reward) == (
        "join n1 and n2",
        "# kernel 3\n",
        1.8,
    )
    assert last.gain == pytest.approx(1.5)
    assert found[1].steps[0].reward is None


def test_lines_are_json_objects(tmp_path: Path) -> None:
    file = write_trajectories(tmp_path / "deep" / "t.jsonl", paths())
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["leaf"] for line in lines] == ["n3", "n4"]
    assert lines[0]["steps"][1]["feedback"]["status"] == "correct"
    assert [p.name for p in file.parent.iterdir()] == ["t.jsonl"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        write_trajectories(tmp_path / "file" / "t.jsonl", paths())


def facts(**changes: object) -> SessionFacts:
    base = SessionFacts(
        "s-1",
        replace(ONE.task, notes=("a family was dropped",)),
        "cpu",
        "cpp",
        Goal("speedup", 2.0),
        Budget(evaluations=50),
        Spent(evaluations=4, seconds=61.25),
        TREE,
        state="finished",
        reason="budget spent: evaluations",
        evaluations=EVALUATIONS,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_report_of_a_finished_session() -> None:
    text = session_report(
        facts(
            confirmed=ONE.evaluation,
            exported=replace(ONE.evaluation, purpose="export", fitness=1.6),
            package="/out/p",
        )
    )
    assert "Winner: n3, found at F = 1.80" in text
    assert "As a user calls the package: correct, F = 1.60." in text
    assert "**borrowed: skill: reductions**" in text
    assert "evaluations 4 of 50, seconds 61.2" in text
    assert "wrong.tail (1)" in text
    assert "  n3 improve F=1.80 two rows at once" in text
    assert "n4 draft correct, untimed" in text
    assert "a family was dropped" in text


def test_report_claims_nothing_without_an_evaluated_package() -> None:
    assert "no figure is claimed" in session_report(facts())


def test_report_of_an_empty_session() -> None:
    text = session_report(
        facts(tree=Tree(), budget=Budget(), spent=Spent(), state="open", reason="")
    )
    assert "Nothing was exported: " in text
    assert "nothing yet; 0 nodes" in text
