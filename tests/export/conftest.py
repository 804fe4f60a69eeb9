"""Exported packages of all samples, and a Python that knows torch but not KEvolve."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kevolve_mcp.export import ExportResult, LineageStep, export_package

from . import samples

PRELUDE = """
import sys

class WithoutUs:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("harness", "kevolve_mcp", "knowledge"):
            raise ModuleNotFoundError(f"{name} is not installed here")

sys.meta_path.insert(0, WithoutUs())
sys.path[:] = [p for p in sys.path if p not in ("", ".")]
"""
Run = Callable[..., str]


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ExportResult]:
    """By name of the sample; read-only by convention: a test that changes one copies it."""
    home = tmp_path_factory.mktemp("packages")
    results = {}
    for make in (samples.scale_norm, samples.min_max, samples.mixed, samples.double_it):
        one = make()
        results[make.__name__] = export_package(
            home / make.__name__,
            task=one.task,
            candidate=one.candidate,
            evaluation=one.evaluation,
            lineage=[
                LineageStep("n1", "skill: row_normalization", "one pass", 1.2),
                LineageStep("n4", None, "wider | loads", 1.7),
            ],
            session="norm-7f3a",
        )
    return results


@pytest.fixture(scope="session")
def run_python() -> Run:
    """run(home, *arguments): the output of `python -I` with only `home` added to the path."""

    def run(home: Path, *arguments: str, cwd: Path | None = None) -> str:
        code = PRELUDE + f"sys.path.insert(0, {str(home)!r})\n"
        start = (
            f"import runpy\nsys.argv = {list(arguments)!r}\n"
            "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
        )
        body = arguments[0] if len(arguments) == 1 else start
        done = subprocess.run(
            [sys.executable, "-I", "-W", "error::RuntimeWarning", "-c", code + body],
            capture_output=True,
            text=True,
            cwd=cwd or home,
            env={
                **os.environ,
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
