"""What lies beside a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from kevolve_mcp.sessions.inputs import companion_start


@pytest.mark.parametrize(
    ("task", "language", "start"),
    [
        ("task.py", "cpp", "start.py"),
        ("task.py", "triton", "start_triton.py"),
        ("task_cuda.py", "triton", "start_triton.py"),
        ("task_cuda.py", "cuda", "start.py"),
        ("reference.py", "triton", ""),
    ],
)
def test_the_start_beside_a_task_is_that_of_the_language(
    tmp_path: Path, task: str, language: str, start: str
) -> None:
    for name in ("task.py", "task_cuda.py", "reference.py", "start.py", "start_triton.py"):
        (tmp_path / name).write_text("")
    assert companion_start(str(tmp_path / task), language) == (
        str(tmp_path / start) if start else ""
    )


def test_there_may_be_none(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("")
    assert companion_start(str(tmp_path / "task.py"), "cpp") == ""
