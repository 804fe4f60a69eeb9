"""Counts, times and silences the kernels that a candidate built, to find out who does the work.

All of this happens in the candidate's own process, so counts and times are only information.
Silencing proves more: if outputs stay right on new inputs although no kernel of the candidate ran,
the kernels are a decoy, whatever the process reports.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from .. import native

KernelMode = Literal["count", "meter", "silence"]


class OwnKernels:
    """Wraps the launch methods of this process. calls: launches of own kernels since `switch`.
    called: calls of C++ functions, by library and name, since the start."""

    def __init__(self) -> None:
        self.calls = 0
        self.called: Counter[tuple[str, str]] = Counter()
        self._mode: KernelMode = "count"
        self._host_ns = 0
        self._events: list[tuple[Any, Any]] = []
        for owner, name in _launchers():
            setattr(owner, name, self._wrap(getattr(owner, name)))
        for owner, name in _givers():
            setattr(owner, name, self._wrap_given(getattr(owner, name)))

    def switch(self, mode: KernelMode) -> tuple[int, int]:
        """Return (launches, nanoseconds spent in own kernels) since the last switch, and continue
        in `mode`. Only mode "meter" measures time: on the host around a call, on a device between
        events around a launch."""
        on_device = (
            sum(begin.elapsed_time(end) for begin, end in self._events) * 1e6
            if self._events
            else 0.0
        )
        totals = self.calls, self._host_ns + int(on_device)
        self.calls, self._host_ns, self._events, self._mode = 0, 0, [], mode
        return totals

    def _wrap(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*arguments: Any, **named: Any) -> Any:
            if named.get("warmup"):  # compiles only, and returns what launches
                return run(*arguments, **named)
            self.calls += 1
            if arguments and isinstance(arguments[0], native.Function):
                self.called[arguments[0].library, arguments[0].name] += 1
            if self._mode == "silence":
                return None
            if self._mode == "count":
                return run(*arguments, **named)
            return self._run_timed(run, arguments, named)

        return launch

    def _wrap_given(self, give: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method that returns what launches."""

        def given(*arguments: Any) -> Any:
            return self._wrap(give(*arguments))

        return given

    def _run_timed(
        self, run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        import torch

        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            start = time.perf_counter_ns()
            try:
                return run(*arguments, **named)
            finally:
                self._host_ns += time.perf_counter_ns() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        try:
            return run(*arguments, **named)
        finally:
            end.record()
            self._events.append((begin, end))


def _launchers() -> list[tuple[Any, str]]:
    """Return the class and method that start kernels in each language."""
    return [
        (native.Function, "__call__"),
        (native.Sized, "__call__"),
        *_loaded("triton.runtime.jit", "JITFunction", "run"),
        *_loaded("triton.runtime.interpreter", "InterpretedFunction", "run"),
    ]


def _givers() -> list[tuple[Any, str]]:
    """Return the class and method that return what starts a kernel: what `warmup` has compiled is
    launched with a grid, and not through `JITFunction.run`. That method launches by the attribute
    `run`, as the framework's own compiler does, whose kernels are not the candidate's."""
    return _loaded("triton.compiler.compiler", "CompiledKernel", "__getitem__")


def _loaded(module: str, kind: str, name: str) -> list[tuple[Any, str]]:
    """Return a class and its method. A module that this process has not loaded launches nothing."""
    found = getattr(sys.modules.get(module), kind, None)
    return [] if found is None else [(found, name)]
