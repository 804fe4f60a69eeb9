"""The example folders as texts: every start is a candidate whose parameters can be searched."""

from __future__ import annotations

import ast

import pytest

from harness.types import Candidate
from kevolve_mcp.synthesis import next_choice, structural_names
from kevolve_mcp.synthesis.program import Program

from .helpers import EXAMPLES

FOLDERS = sorted(
    p for p in EXAMPLES.iterdir() if (p / "task.py").exists() and (p / "start.py").exists()
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_start_and_task_fit_each_other(folder) -> None:  # type: ignore[no-untyped-def]
    start = Candidate((folder / "start.py").read_text(), "cpp")
    task = (folder / "task.py").read_text()
    assert (folder / "README.md").exists()
    assert set(start.tunables()) == set(start.params())
    assert all(start.params()[k] in v for k, v in start.tunables().items())
    assert set(structural_names(start.source)) <= set(start.tunables())
    assert next_choice(start, (), 0).unseen > 10
    arguments = Program.parse(task).arguments
    forward = next(
        n
        for n in ast.walk(ast.parse(start.source))
        if isinstance(n, ast.FunctionDef) and n.name == "forward"
    )
    assert tuple(a.arg for a in forward.args.args[1:]) == arguments
