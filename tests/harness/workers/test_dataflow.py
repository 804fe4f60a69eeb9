"""The graph of a task: what it computes, whatever it is written with."""

from __future__ import annotations

import pytest

from harness.judge.processes import answers
from harness.types import Operator
from kevolve_mcp.executors.testing import OpenJudge

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"


def graph(
    judge: OpenJudge, body: str, inputs: str = "torch.randn(8, 64)", head: str = ""
) -> tuple[Operator, ...]:
    source = (
        f"{HEAD}{head}\ndef reference(x, *more):\n    return {body}\n\n\ndef get_inputs():\n"
        f"    return [{inputs}]\n"
    )
    return judge.run(judge.executor.open_task(source, "", "cpu", timed=False)).graph


def names(found: tuple[Operator, ...]) -> str:
    return " ".join(f"{o.name}{f':{o.axes}{o.extent}' if o.axes else ''}" for o in found)


def test_composed_and_written_out_are_the_same(judge: OpenJudge) -> None:
    softmax = graph(judge, "F.softmax(x, -1)")
    written = graph(
        judge, "(lambda e: e / e.sum(-1, keepdim=True))((x - x.amax(-1, keepdim=True)).exp())"
    )
    assert softmax == written
    assert names(softmax) == "max:last64 sub exp sum:last64 div"
    assert [o.reads for o in softmax] == [(-1,), (-1, 0), (1,), (2,), (2, 3)]


def test_axes_are_told_apart_and_views_left_out(judge: OpenJudge) -> None:
    assert names(graph(judge, "x.t().contiguous().sum(0)")) == "sum:inner64"
    assert names(graph(judge, "x.double().sum()")) == "sum:all512"
    assert names(graph(judge, "torch.cumsum(x * 2, 1)")) == "mul cumsum:last64"


def test_a_branch_on_values_and_a_gradient_have_a_graph(judge: OpenJudge) -> None:
    assert names(
        graph(judge, "x * 2 if x.isfinite().all() else x / 2", head="# no head\n")
    ).endswith("mul")
    backward = graph(judge, "torch.sin(x)", head="GRADIENTS = True\n")
    assert names(backward) == "sin cos mul"


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"graph": "sum", "problem": ""},
        {"graph": [["sum", [0], "", 0]], "problem": ""},  # reads itself
        {"graph": [["sum", [-1], "diagonal", 0]], "problem": ""},
        {"graph": [["sum", [-1], "all", -5]], "problem": ""},
        {"graph": [["sum", [-1]]], "problem": ""},
        {"graph": [["x" * 1000, [], "", 0]], "problem": ""},
        {"graph": [], "problem": "RuntimeError: not today\x1b[2J"},
    ],
)
def test_nonsense_is_no_graph_and_says_why(told: object) -> None:
    found, problem = answers.read_graph(told)
    assert found == ()
    assert problem
    assert "\x1b" not in problem
