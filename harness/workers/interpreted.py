"""The process that runs one Triton candidate without a device: kernels go through Triton's interpreter, on host memory."""

from __future__ import annotations

import os
from typing import Any

from . import candidate, driver, mapped, modules

NARROW = ("bfloat16", "float8")  # the interpreter computes these wrongly without saying so


class InterpretedHost(candidate.CandidateHost):
    """Commands besides those of a candidate's worker: `device` before everything else, `launches`."""

    launches = 0

    def on_device(self, fds: list[int], device: mapped.Device, target: list[Any]) -> None:
        """What programs that ask about a device are told."""
        mapped.install(device, zero=False)
        pretended = driver.Driver((target[0], target[1], target[2]), device, 0, _nothing_loaded, _nothing_launched)
        pretended.benchmark = _first  # type: ignore[method-assign]  # an interpreted call is slow, and its time says nothing
        driver.install(pretended)
        self._count()

    def on_launches(self, fds: list[int]) -> tuple[Any, tuple[int, ...]]:
        """values: how many kernels the candidate has launched so far."""
        return None, (self.launches,)

    def _count(self) -> None:
        from triton.runtime.interpreter import InterpretedFunction

        run = InterpretedFunction.run

        def counted(function: Any, *arguments: Any, **named: Any) -> Any:
            self.launches += 1
            for value in (*arguments, *named.values()):
                kind = str(getattr(value, "dtype", ""))
                if any(narrow in kind for narrow in NARROW):
                    raise modules.LoadError(
                        "unfit",
                        f"a {kind} tensor reached Triton's interpreter, which computes such values wrongly without an error",
                    )
            return run(function, *arguments, **named)

        InterpretedFunction.run = counted  # type: ignore[method-assign]


def _first(call: Any, *_: Any, quantiles: Any = None, **__: Any) -> Any:
    return [1.0] * len(quantiles) if quantiles else 1.0


def _nothing_loaded(name: str, binary: Any, shared: int) -> tuple[int, int]:
    return 0, 0


def _nothing_launched(metadata: Any, grid: tuple[int, ...]) -> None:
    """The interpreter launches by itself."""


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    InterpretedHost(sock, text_fd).serve()
