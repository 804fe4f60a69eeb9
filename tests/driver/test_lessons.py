"""The sentence about a node."""

from __future__ import annotations

from dataclasses import replace

from kevolve_mcp import api
from kevolve_mcp.driver import Told
from kevolve_mcp.driver.lessons import lesson

NODE = api.Node(
    "n7",
    ("n3",),
    fitness=1.8,
    versus_parent=1.2,
    params={"VEC": 8, "UNROLL": 2},
    hypothesis="Wider. And more.",
)
TOLD = Told("submit", api.Evaluation("e9", message="every case agrees", fitness=1.8), node=NODE)


def test_only_the_parameters_that_changed_are_named() -> None:
    assert lesson(TOLD, {"VEC": 4, "UNROLL": 2}) == "VEC=8: 1.20× its parent"


def test_the_hypothesis_stands_in_where_no_parameter_changed() -> None:
    assert lesson(TOLD, None).startswith("Wider: 1.20×")


def test_what_bounds_it_and_whether_the_prediction_held() -> None:
    signals = (
        api.Signal("improved"),
        api.Signal("memory_bound", "83 % of the measured bandwidth"),
    )
    told = replace(
        TOLD,
        evaluation=replace(TOLD.evaluation, signals=signals),
        node=replace(NODE, predicted_speedup=0.9),
    )
    said = lesson(told, None)
    assert "83 % of the measured bandwidth" in said
    assert "against the prediction (0.90×)" in said


def test_a_failure_says_why() -> None:
    found = api.Evaluation("e9", status="build_failed", message="line 3: x is not declared\nmore")
    told = Told("submit", found, node=replace(NODE, status="build_failed"))
    assert (
        lesson(told, {"VEC": 8, "UNROLL": 1}) == "UNROLL=2: build_failed: line 3: x is not declared"
    )


def test_a_start_names_its_origin() -> None:
    told = replace(TOLD, node=replace(NODE, origin="skill: rows", versus_parent=None))
    assert lesson(told, None) == "start from skill: rows: 1.80× the strongest baseline"
