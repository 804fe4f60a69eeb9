"""`kevolve template`."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Kevolve


def test_a_candidate_in_the_right_form_goes_to_stdout(kevolve: Kevolve, task: Path) -> None:
    result = kevolve("template", task)
    assert result.exit_code == 0, result.output
    assert "class ModelNew(nn.Module)" in result.stdout
    compile(result.stdout, "template", "exec")


def test_or_to_a_file_that_does_not_exist_yet(kevolve: Kevolve, task: Path, tmp_path: Path) -> None:
    to = tmp_path / "first.py"
    result = kevolve("template", task, "--output", to)
    assert result.exit_code == 0, result.output
    assert "class ModelNew" in to.read_text()
    assert "kevolve evaluate" in result.stderr
    again = kevolve("template", task, "--output", to)
    assert again.exit_code == 2
    assert "already exists" in again.stderr


def test_json(kevolve: Kevolve, task: Path) -> None:
    data = json.loads(kevolve("template", task, "--language", "triton", "--json").stdout)
    assert data["language"] == "triton"
    assert "triton" in data["source"]


def test_wrong_input(kevolve: Kevolve, task: Path, tmp_path: Path) -> None:
    assert "no such task" in kevolve("template", tmp_path / "gone").stderr
    unknown = kevolve("template", task, "--language", "fortran")
    assert unknown.exit_code == 2
    assert "cpp, triton" in unknown.stderr
    nowhere = kevolve("template", task, "--output", tmp_path / "no" / "folder.py")
    assert nowhere.exit_code == 2
    assert "cannot be written" in nowhere.stderr
