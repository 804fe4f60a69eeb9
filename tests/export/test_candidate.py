"""The package as one candidate: self-contained, built by the evaluator, and what a user calls."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from kevolve_mcp.export import ExportResult, package_candidate

ROOT = Path(__file__).parents[2]
SCRIPT = """
import importlib.util, inspect, sys, types
sys.path.insert(0, {root!r})
import torch
from harness import native

built = []
def builder(order):
    built.append(order.source)
    return native.build_here(order)
native.use_builder(builder)

def load(path):
    spec = importlib.util.spec_from_file_location("candidate_" + path.rpartition("/")[2][:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

norm, twice, mixed = (load(f"{folder}/{{name}}.py") for name in ("scale_norm", "double_it", "mixed"))
assert len(built) == 3, "builds go through the evaluator"
model = norm.ModelNew(32)
with torch.no_grad():
    model.weight.copy_(torch.randn(32))
x = torch.randn(4, 32)
reference = norm._package.modules.Reference(32)
reference.load_state_dict(model.state_dict())
calls = sys.modules[norm._package.__name__ + ".kernel"].CALLS
assert torch.allclose(model(x), reference(x), atol=1e-5) and len(calls) == 1
with torch.no_grad():
    model.weight.mul_(2)
    reference.weight.mul_(2)
assert torch.allclose(model(x), reference(x), atol=1e-5) and len(calls) == 2
assert torch.equal(model(torch.ones(20, 32)), reference(torch.ones(20, 32))) and len(calls) == 2, "dispatch included"
assert "class KernelModule" in inspect.getsource(norm._package.KernelModule)
assert twice.kernel(torch.ones(3, 7), 2).sum() == 42
assert all(p.requires_grad for p in mixed.ModelNew().parameters())
"""  # noqa: E501


def test_candidates_run_without_the_folder(
    packages: dict[str, ExportResult], tmp_path: Path
) -> None:
    for name in ("scale_norm", "double_it", "mixed"):
        (tmp_path / f"{name}.py").write_text(package_candidate(packages[name].path).source)
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT.format(root=str(ROOT), folder=str(tmp_path))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_text_depends_on_the_package_alone(packages: dict[str, ExportResult]) -> None:
    path = packages["scale_norm"].path
    candidate = package_candidate(path)
    assert candidate == package_candidate(path)
    assert candidate.language == "cpp"
    assert str(path.parent) not in candidate.source
    assert "ModelNew" in {
        n.name for n in ast.parse(candidate.source).body if isinstance(n, ast.ClassDef)
    }
    other = package_candidate(packages["double_it"].path)
    assert "kernel" in {
        n.name for n in ast.parse(other.source).body if isinstance(n, ast.FunctionDef)
    }
