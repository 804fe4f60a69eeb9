"""Packages in use, in a Python that has torch and not KEvolve."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from kevolve_mcp.export import ExportResult

from .conftest import Run

Packages = dict[str, ExportResult]
CLOSE = """
import torch

def close(a, b):
    assert torch.allclose(a, b, atol=1e-5), (a - b).abs().max()
"""
MODULE = """
import copy, pickle, threading
import torch.nn.utils.parametrize
import scale_norm as package
calls = sys.modules["scale_norm.kernel"].CALLS

def used(function, *args):
    calls.clear()
    return function(*args), bool(calls)

torch.manual_seed(3)
reference = package.modules.Reference(32)
torch.manual_seed(3)
model = package.KernelModule(32)
after = torch.rand(1)
torch.manual_seed(3)
package.modules.Reference(32)
assert torch.equal(torch.rand(1), after), "the constructor draws as many random numbers as the reference's"
assert list(model.state_dict()) == list(reference.state_dict())
for ours, theirs in zip(model.state_dict().values(), reference.state_dict().values()):
    assert torch.equal(ours, theirs)
model.load_state_dict(reference.state_dict())

# the dispatch rule
with torch.no_grad():
    measured, between, outside = ((4, 32), (9, 32), (6, 32)), ((5, 32), (8, 32)), ((3, 32), (10, 32), (2, 4, 32))
    for shapes, expected in ((measured, True), (between, True), (outside, False)):
        for shape in shapes:
            x = torch.randn(shape)
            y, kernel = used(model, x)
            close(y, reference(x))
            assert kernel is expected, shape
    x = torch.randn(4, 32)
    assert not used(model, torch.randn(32, 4).t())[1], "strides"
    assert not used(model, x.double())[1], "dtype"
    assert not used(package.KernelModule(64), torch.randn(4, 64))[1], "a case without a win"
    assert not used(package.KernelModule(32, 1e-3), x)[1], "other constructor arguments"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not used(model, x)[1], "autocast"
    shifted = torch.randn(4 * 32 + 1)[1:].view(4, 32)
    y, kernel = used(model, shifted)
    close(y, reference(shifted))
    assert kernel, "a misaligned input is copied"
    y, kernel = used(lambda: model(x=x))
    close(y, reference(x))
    assert kernel, "by keyword"
    model.kernel_route = "reference"
    assert not used(model, x)[1]
    model.kernel_route = "kernel"
    assert used(model, torch.randn(3, 32))[1]
    model.kernel_route = "auto"

    # parameters follow the module
    other = copy.deepcopy(model)
    other.weight.mul_(2)
    reference.weight.mul_(2)
    close(other(x), reference(x))
    close(pickle.loads(pickle.dumps(other))(x), reference(x))
    state = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    for x2 in (x, torch.randn(1, 32)):
        close(package.functional(x2, init=(32,), state=state), torch.func.functional_call(reference, state, (x2,)))
        close(torch.func.functional_call(model, state, (x2,)), torch.func.functional_call(reference, state, (x2,)))
    # calls that look the same go the short way, and nothing else does
    quick, read = model._kevolve.instance.quick, model._kevolve.read
    assert quick.find((x,), read(model)) == "kernel"
    assert quick.find((x.double(),), read(model)) is None
    swapped = copy.deepcopy(other)
    close(swapped(x), reference(x))
    swapped.weight.data = swapped.weight.data.double()
    assert not used(swapped, x)[1], "parameters of another dtype, in the same object"
    torch.nn.utils.parametrize.register_parametrization(parametrized := copy.deepcopy(other), "weight", torch.nn.Identity())
    close(parametrized(x), reference(x))
    close(other.kernel_alone()(x), reference(x))
    assert not used(lambda: model.without_kernel(x)(x))[1]
    wide = package.KernelModule(64)
    for _ in range(2):
        assert not used(wide, torch.randn(4, 64))[1], "the reference, also the second time"
    assert wide.without_kernel(torch.randn(4, 64)) is None

    try:
        package.functional(x, init=(32,))
    except TypeError as error:
        assert "weight" in str(error)
    else:
        raise AssertionError("parameters are missing")

# training goes to the reference, since the task asks for no gradients
y, kernel = used(model, x)
assert y.requires_grad and not kernel
model.requires_grad_(False)
assert used(model, x)[1]

# threads: every one with parameters of its own
errors = []

def work(seed):
    try:
        torch.manual_seed(seed)
        ours, theirs = package.KernelModule(32).requires_grad_(False), package.modules.Reference(32)
        theirs.load_state_dict(ours.state_dict())
        for _ in range(100):
            x = torch.randn(4, 32)
            close(ours(x), theirs(x))
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not errors, errors

# torch.export
program = torch.export.export(model.eval(), (x,))
assert any(package.OPERATOR.split("::")[1] in str(node.target) for node in program.graph.nodes)
close(program.module()(x), model(x))
torch.export.save(program, "program.pt2")
torch.save([x, model(x)], "expected.pt")
"""  # noqa: E501
SAVED = """
import scale_norm
x, y = torch.load("expected.pt")
close(torch.export.load("program.pt2").module()(x), y)
"""


def test_module_follows_the_dispatch_rule_and_its_parameters(
    packages: Packages, run_python: Run, tmp_path: Path
) -> None:
    home = packages["scale_norm"].path.parent
    run_python(home, CLOSE + MODULE, cwd=tmp_path)
    run_python(home, CLOSE + SAVED, cwd=tmp_path)


def test_operator_under_torch_compile(packages: Packages, run_python: Run) -> None:
    """One graph without breaks, static and dynamic, for every form; gradients through the
    operator."""
    script = """
import double_it, min_max, mixed, scale_norm
calls = sys.modules["scale_norm.kernel"].CALLS
whole = dict(fullgraph=True, backend="aot_eager")

with torch.no_grad():
    model, x = scale_norm.KernelModule(32), torch.randn(4, 32)
    expected = scale_norm.modules.Reference.forward(model, x)
    close(torch.compile(model, **whole)(x), expected)
    assert calls, "the operator is in the graph"
    dynamic = torch.compile(model, dynamic=True, **whole)
    for rows, kernel in ((4, True), (5, True), (3, False)):
        calls.clear()
        x = torch.randn(rows, 32)
        close(dynamic(x), scale_norm.modules.Reference.forward(model, x))
        assert bool(calls) is kernel
    found = torch.compile(min_max.KernelModule(), **whole)(torch.arange(85.0).view(5, 17))
    assert type(found) is tuple and found[1].tolist() == [16] * 5
    x = torch.randn(3, 7)
    close(torch.compile(lambda x: double_it.functional(x, 2), **whole)(x), 2 * x)
    close(double_it.functional(x, 2), 2 * x)
    close(double_it.functional(x, 3), 3 * x)

def gradients(function, case):
    torch.manual_seed(0)
    pair, *rest = mixed.case_inputs(case)
    leaves = [t.requires_grad_() for t in (*pair, rest[2]) if t is not None] + [model.scale]
    first, second = function(pair, *rest)
    return torch.autograd.grad(first.sum() + (second * 2).sum(), leaves)

model = mixed.KernelModule()
compiled = torch.compile(model, **whole)
for case in mixed.case_names():
    direct, graph = gradients(model, case), gradients(compiled, case)
    model.kernel_route = "reference"
    for a, b, c in zip(direct, graph, gradients(model, case)):
        close(a, c)
        close(b, c)
    model.kernel_route = "auto"

tensors, ints, floats = [], [], []
layout = mixed.op.calls.flatten(mixed.case_inputs("biased"), tensors, ints, floats)
tensors = [t.requires_grad_() for t in tensors]
torch.library.opcheck(mixed.forward, (tensors, ints, floats, [model.scale], layout, model._kevolve.token))
"""  # noqa: E501
    run_python(packages["mixed"].path.parent, CLOSE + script)


def test_the_packages_own_tests_pass(packages: Packages, run_python: Run) -> None:
    """All in one process: torch takes seconds to import."""
    home = packages["scale_norm"].path.parent
    files = [str(found.path / "test_kernel.py") for found in packages.values()]
    options = (
        "-v",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        f"--rootdir={home}",
        "-c",
        "/dev/null",
    )
    out = run_python(home, "pytest", *options, *files)
    assert "failed" not in out
    for name in packages:
        assert re.search(rf"{name}/test_kernel.py::\S+ PASSED", out), out


def test_a_wrong_gradient_of_a_nested_input_fails_its_own_test(
    packages: Packages, run_python: Run, tmp_path: Path
) -> None:
    package = tmp_path / "mixed"
    shutil.copytree(packages["mixed"].path, package)
    kernel = package / "kernel.py"
    right = kernel.read_text()
    kernel.write_text(right.replace("return g * b * scale,", "return 2 * g * b * scale,"))
    assert kernel.read_text() != right
    script = f"""
import pytest
options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", "/dev/null", "-k", "gradients"]
sys.exit(pytest.main([*options, {str(package / "test_kernel.py")!r}]) != pytest.ExitCode.TESTS_FAILED)
"""  # noqa: E501
    assert "2 failed" in run_python(tmp_path, script)


def test_bench_measures_every_case(packages: Packages, run_python: Run, tmp_path: Path) -> None:
    out = run_python(
        packages["scale_norm"].path.parent,
        "scale_norm.bench",
        "--quick",
        "--pairs",
        "3",
        "--json",
        str(tmp_path / "b.json"),
    )
    report = json.loads((tmp_path / "b.json").read_text())
    assert list(report["cases"]) == ["small", "wide", "tall", "hidden"]
    assert "MALLOC_MMAP_THRESHOLD_" in report["allocation"]
    assert report["threads"] == 1
    for case in report["cases"].values():
        assert set(case["median_us"]) == {"eager", "kernel", "package"}
        assert not case["failed"]
        assert case["speedup_over_strongest"]["package"]["low"] > 0
        assert (case["dispatch_us"] is None) is (case["dispatch"] == "reference")
    assert "(reference)" in out
    assert "(kernel, dispatch " in out
