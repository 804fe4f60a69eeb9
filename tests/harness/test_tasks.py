"""Task files: every unmodified one opens, every bad one is refused with the line or the part and the mend."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kevolve_mcp.errors import TaskRefused

from .conftest import Bench

DATA = Path(__file__).parents[1] / "data"
GOOD = [*sorted((DATA / "kernelbench").glob("*.py")), DATA / "bad_tasks" / "prints_a_lot.py"]
HANGS = ("hangs_in_forward", "hangs_on_import")
BAD = [p for p in sorted((DATA / "bad_tasks").glob("*.py")) if p.stem not in (*HANGS, "prints_a_lot")]


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_an_unmodified_file_is_a_task(bench: Bench, path: Path) -> None:
    task = bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    assert task.name == path.stem
    assert task.cases[0].inputs
    assert task.cases[0].outputs
    assert task.cases[0].bytes_min > 0
    assert task.operators


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_file_is_refused_with_a_hint(bench: Bench, path: Path) -> None:
    with pytest.raises(TaskRefused) as refusal:
        bench.run(bench.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    assert path.name in refusal.value.message
    assert len(refusal.value.message) > len(path.name) + 20
    if "raises" in path.stem or path.stem == "syntax_error":
        assert f"{path.name}, line " in refusal.value.message


def test_a_task_that_hangs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from kevolve_mcp.executors import LocalExecutor

    monkeypatch.setenv("KEVOLVE_TASK_SECONDS", "3")

    async def body() -> None:
        async with LocalExecutor(None, tmp_path) as executor:
            for name in HANGS:
                path = DATA / "bad_tasks" / f"{name}.py"
                with pytest.raises(TaskRefused, match="did not answer in time"):
                    await executor.open_task(path.read_text(), str(path), "cpu", timed=False)

    asyncio.run(body())


def test_cases_carry_weights_protection_and_held_out_draws(bench: Bench) -> None:
    names = [c.name for c in bench.task.cases]
    assert names[:2] == ["small", "odd"]
    drawn = [c for c in bench.task.cases if c.held_out]
    assert len(drawn) == 2
    assert all(1 <= c.arguments["rows"] <= 64 for c in drawn)
    assert [c.name for c in bench.task.visible_cases] == ["small", "odd"]


def test_sugar_and_gradients(bench: Bench) -> None:
    source = (
        "import torch\nGRADIENTS = True\n\ndef reference(x):\n    return torch.sin(x)\n\n"
        "def get_inputs():\n    return [torch.randn(8, 32)]\n"
    )
    ast.parse(source)
    task = bench.run(bench.executor.open_task(source, "", "cpu", timed=False))
    assert task.gradients
    assert len(task.cases[0].outputs) == 2  # the result and the gradient of its input
    right = "import torch\n\ndef kernel(x):\n    return x.sin()\n"
    wrong = "import torch\n\ndef kernel(x):\n    return x.detach().sin() + 0 * x\n"
    from harness.types import Candidate, EvaluationRequest, Policy

    policy = Policy(library_calls="allow")
    for text, status in ((right, "correct"), (wrong, "incorrect")):
        request = EvaluationRequest(Candidate(text, "cpp"), "check", "verify", policy)
        assert bench.run(bench.executor.evaluate(task, request, "cpu")).status == status
