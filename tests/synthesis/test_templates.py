"""Files to fill in: valid from the first line."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from harness.native import read_kernels, read_prototypes
from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis import template_candidate

from .helpers import model, pointwise_task, rmsnorm_task, spec, task


def source_text(source: str) -> str:
    return next(
        ast.literal_eval(s.value)
        for s in ast.parse(source).body
        if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "SOURCE"
    )


def test_cpp_template_of_the_example() -> None:
    candidate = template_candidate(rmsnorm_task())
    (prototype,) = read_prototypes(source_text(candidate.source)).values()
    assert [kind for kind, _ in prototype.arguments] == ["p"] * 5 + ["l"]
    assert set(candidate.params()) == set(candidate.tunables())
    assert "class ModelNew(nn.Module)" in candidate.source
    assert "return run(x, residual, self.weight)" in candidate.source
    assert "float32[32, 4096]" in candidate.source
    assert "secret_case" not in candidate.source


def test_cuda_template_of_the_example() -> None:
    candidate = template_candidate(rmsnorm_task(), "cuda")
    (kernel,) = read_kernels(source_text(candidate.source)).values()
    prototype = kernel.prototype()
    assert prototype is not None
    assert [kind for kind, _ in prototype.arguments] == ["p"] * 5 + ["l"]
    assert "device=x.device" in candidate.source
    assert "_lib.kernel[blocks, PARAMS" in candidate.source
    assert set(candidate.params()) == set(candidate.tunables())


def test_the_shape_of_an_output_holds_in_every_case() -> None:
    """In the first case the output happens to have the shape of an input."""
    made = task("import torch", [spec("int64", 256, 32)], [spec("float32", 256, 32)], [])
    first = made.cases[0]
    wide = replace(
        first,
        name="wide",
        inputs=(spec("int64", 512, 20),),
        outputs=(spec("float32", 512, 128),),
    )
    several = replace(made, cases=(first, wide, *made.cases[1:]))
    assert "torch.empty(input0.shape, dtype" in template_candidate(made).source
    text = template_candidate(several).source
    assert ".shape[0], 32), dtype=torch.float32)  # axis 1: 32 in only, 128 in wide\n" in text


@pytest.mark.parametrize("language", ["cpp", "triton", "cuda"])
def test_any_task_gets_a_file_that_parses(language: str) -> None:
    tasks = [
        rmsnorm_task(),
        pointwise_task("return x", (8, 8)),
        task(
            "import torch\ndef reference(a, b):\n    return a\n",
            [spec("int64", 3), spec("bool", 3)],
            [spec("int64", 3)],
            [],
        ),
        task(model("return x", "x", "self.f = helper(3)", "n=4"), [], [], []),
        task("this is no Python (", [], [], []),
    ]
    for sample in tasks:
        candidate = template_candidate(sample, language)
        names = {
            s.name
            for s in ast.parse(candidate.source).body
            if isinstance(s, (ast.ClassDef, ast.FunctionDef))
        }
        assert names & {"ModelNew", "kernel"} - (
            {"kernel"} if language == "triton" and "ModelNew" in names else set()
        )
        assert candidate.tunables()


def test_unknown_language_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        template_candidate(rmsnorm_task(), "fortran")
    assert "cpp" in caught.value.hint
