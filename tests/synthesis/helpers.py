"""Small tasks, candidates and asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.types import Candidate, Case, Params, Task, TensorSpec
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.tree import Ask
from kevolve_mcp.synthesis import AskContext, HistoryRow, ParentView, TaskFacts, structure_digest

EXAMPLES = Path(__file__).parents[2] / "examples"

TUNABLE = """
import torch
STRUCTURE = ["PASSES"]
TUNABLES = {"UNROLL": [1, 2, 4, 8], "WIDTH": [128, 256, 512], "PASSES": [1, 2]}
PARAMS = {"UNROLL": 1, "WIDTH": 128, "PASSES": 1}
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
"""


def spec(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec(shape, dtype, (), 0)


def task(
    source: str,
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
    operators: list[str],
    parameters: tuple[str, ...] = (),
) -> Task:
    case = Case(
        "only",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        baselines_us={"eager": 100.0},
        roofline_time_us=10.0,
    )
    hidden = Case("secret_case", held_out=True, inputs=tuple(inputs), outputs=tuple(outputs))
    return Task(
        "sample",
        "d" * 64,
        source,
        cases=(case, hidden),
        operators=dict.fromkeys(operators, 1),
        parameters=parameters,
    )


def rmsnorm_task() -> Task:
    rows = spec("float32", 32, 4096)
    return task(
        (EXAMPLES / "rmsnorm_residual" / "task.py").read_text(),
        [rows, rows],
        [rows, rows],
        [
            "aten.add.Tensor",
            "aten.pow.Tensor_Scalar",
            "aten.mean.dim",
            "aten.rsqrt.default",
            "aten.mul.Tensor",
        ],
        ("weight float32[4096]",),
    )


def model(forward: str, arguments: str = "x", init: str = "", constructor: str = "") -> str:
    """The text of a task with this forward (lines joined by ';') and constructor."""
    lines = [
        "import torch",
        "import torch.nn as nn",
        "import torch.nn.functional as F",
        "",
        "class Model(nn.Module):",
    ]
    if init or constructor:
        lines += [
            f"    def __init__(self{', ' + constructor if constructor else ''}):",
            "        super().__init__()",
        ]
        lines += [f"        {line}" for line in init.split("; ") if line]
    lines += [f"    def forward(self, {arguments}):"]
    lines += [f"        {line}" for line in forward.split("; ")]
    return "\n".join(lines) + "\n"


def pointwise_task(
    forward: str,
    *shapes: tuple[int, ...],
    arguments: str = "x",
    init: str = "",
    constructor: str = "",
    parameters: tuple[str, ...] = (),
) -> Task:
    inputs = [spec("float32", *s) for s in shapes]
    return task(
        model(forward, arguments, init, constructor),
        inputs,
        [inputs[0]],
        ["aten.relu.default"],
        parameters,
    )


def node(seq: int, candidate: Candidate, fitness: float | None = 1.0, **changes: Any) -> Node:
    values: dict[str, Any] = {
        "id": f"n{seq}",
        "seq": seq,
        "parents": (),
        "candidate": candidate.digest,
        "evaluation": f"e{seq}",
        "status": "correct" if fitness else "incorrect",
        "fitness": fitness,
        "eligible": bool(fitness),
        "params": candidate.params(),
        "structure": structure_digest(candidate),
    }
    return Node(**(values | changes))


def parent(seq: int, source: str, fitness: float = 1.0) -> ParentView:
    candidate = Candidate(source, "cpp")
    return ParentView(
        f"n{seq}",
        source,
        "correct",
        fitness,
        params=candidate.params(),
        tunables=candidate.tunables(),
        structure=structure_digest(candidate),
    )


def row(candidate: Candidate, fitness: float, seq: int = 1) -> HistoryRow:
    return HistoryRow(
        f"n{seq}",
        "correct" if fitness else "incorrect",
        fitness,
        candidate.params(),
        structure_digest(candidate),
        "",
        candidate.digest,
    )


def ask(
    role: Any,
    *parents: ParentView,
    history: tuple[HistoryRow, ...] = (),
    seed: int = 0,
    **changes: Any,
) -> AskContext:
    values: dict[str, Any] = {"task": TaskFacts("none", "x = 1")}
    return AskContext(
        "s-1",
        f"a{seed}",
        role,
        "both",
        "cpu",
        "cpp",
        seed=seed,
        parents=parents,
        history=history,
        **(values | changes),
    )


def expansion(role: Any = "improve", parents: tuple[str, ...] = ("n1",)) -> Ask:
    return Ask(seq=7, parents=parents, memory="both", role=role)


def landscape(params: Params) -> float:
    """A surface with one optimum, UNROLL 4, WIDTH 512, PASSES 2: 2.4."""
    unroll = {1: 0.0, 2: 0.3, 4: 0.7, 8: 0.5}[int(params["UNROLL"])]
    width = {128: 0.0, 256: 0.2, 512: 0.4}[int(params["WIDTH"])]
    return 1.0 + unroll + width + (0.3 if params["PASSES"] == 2 else 0.0)
