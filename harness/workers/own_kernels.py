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
            self.calls += 1
            if isinstance(arguments[0], native.Function):
                self.called[arguments[0].library, arguments[0].name] += 1
            if self._mode == "silence":
                return None
            if self._mode == "count":
                return run(*arguments, **named)
            return self._run_timed(run, arguments, named)

        return launch

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
    """Return the class and method that start kernels in each language. A module that this process
    has not loaded launches nothing."""
    launchers: list[tuple[Any, str]] = [(native.Function, "__call__"), (native.Sized, "__call__")]
    for module, name in (
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
    ):
        if (kind := getattr(sys.modules.get(module), name, None)) is not None:
            launchers.append((kind, "run"))
    return launchers
