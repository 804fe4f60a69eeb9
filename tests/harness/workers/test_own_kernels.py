"""Launches of what Triton has compiled are counted and silenced, whichever way they are made."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from harness import native
from harness.workers.own_kernels import OwnKernels

compiler = pytest.importorskip("triton.compiler.compiler")
jit = pytest.importorskip("triton.runtime.jit")
GRID = (4, 1, 1)


class Launches:
    """A compiled kernel without a device, and the arguments with which it was launched."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        kernel = self.kernel = object.__new__(compiler.CompiledKernel)
        kernel.module = kernel.function = kernel.packed_metadata = kernel.src = object()
        kernel.name = "softmax"
        kernel._run = self.launch

    def launch(self, *arguments: Any) -> None:
        self.seen.append((arguments[:3], arguments[-2:]))

    def launch_by_decorator(self, *arguments: Any, grid: Any) -> None:
        """In place of JITFunction.run, which launches by `run` what it has compiled."""
        self.kernel.run(*grid, *arguments)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    found = Launches()
    methods = [
        (native.Function, "__call__"),
        (native.Sized, "__call__"),
        (compiler.CompiledKernel, "__getitem__"),
    ]
    if (interpreter := sys.modules.get("triton.runtime.interpreter")) is not None:
        methods.append((interpreter.InterpretedFunction, "run"))
    for owner, name in methods:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # as it is, restored afterwards
    monkeypatch.setattr(
        jit.JITFunction,
        "run",
        lambda function, *arguments, grid: found.launch_by_decorator(*arguments, grid=grid),
    )
    return found


def test_a_compiled_kernel_is_counted_and_silenced(launches: Launches) -> None:
    own = OwnKernels()
    launches.kernel[GRID]("x", "y", stream=0)
    assert own.switch("silence")[0] == 1
    launches.kernel[GRID]("x", "y", stream=0)
    assert own.switch("meter")[0] == 1
    assert launches.seen == [(GRID, ("x", "y"))]
    launches.kernel[GRID]("x", "y", stream=0)
    count, ns = own.switch("count")
    assert count == 1
    assert ns > 0
    assert len(launches.seen) == 2


def test_a_launch_through_the_decorator_is_counted_once(launches: Launches) -> None:
    own = OwnKernels()
    function = object.__new__(jit.JITFunction)
    function.run("x", "y", grid=GRID)
    assert own.switch("silence")[0] == 1
    function.run("x", "y", grid=GRID)
    assert own.switch("count")[0] == 1
    assert launches.seen == [(GRID, ("x", "y"))]
