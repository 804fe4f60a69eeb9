"""The process that runs one Triton candidate without a device: Triton's interpreter executes its
kernels on host memory."""

from __future__ import annotations

import os
from typing import Any

from .. import candidate, modules
from . import cuda_mapping, triton_driver

NUMPY = (
    "this release of Triton's interpreter does not work with this release of numpy if the bound of "
    "a loop is an argument of the kernel: install numpy below 2.4 or a newer triton, or make the "
    "bound a tl.constexpr"
)
# parts of numpy's error message
_NUMPY = ("0-dimensional", "only integer scalar arrays", "only length-1 arrays", "numpy")
NARROW = ("bfloat16", "float8")  # the interpreter computes these wrongly without an error


class InterpreterHost(candidate.CandidateHost):
    """The commands besides those of a candidate's worker: `device` before all others, and
    `configure`."""

    _choice: Configurations | None = None

    def on_device(self, fds: list[int], device: cuda_mapping.Device, target: list[Any]) -> None:
        """Install the virtual device."""
        cuda_mapping.install(device, zero=False)
        driver = triton_driver.VirtualDriver(
            (target[0], target[1], target[2]), device, 0, _nothing_loaded, _nothing_launched
        )
        driver.benchmark = _first  # type: ignore[method-assign]  # an interpreted call is slow, and its time says nothing
        triton_driver.install(driver)
        _refuse_what_misleads()
        self._choice = Configurations()

    def on_configure(self, fds: list[int], number: int) -> dict[str, list[str]]:
        """Run every autotuned kernel from now on in the configuration with this number, modulo
        their count. Returns, by kernel, the configurations that its launches since the last such
        command could choose from."""
        assert self._choice is not None
        return self._choice.take(number)


class Configurations:
    """Chooses the configuration that Triton's autotuner uses. The fastest is unknown, since nothing
    is timed."""

    def __init__(self) -> None:
        from triton.runtime.autotuner import Autotuner

        self._number = 0
        self._labels: dict[str, list[str]] = {}
        self._tuners: list[Any] = []
        prune = Autotuner.prune_configs

        def choose(tuner: Any, *arguments: Any, **named: Any) -> list[Any]:
            allowed = prune(tuner, *arguments, **named)
            name = str(getattr(tuner.base_fn, "__name__", "kernel"))
            labels = [str(config) for config in allowed]
            self._labels[name] = max(self._labels.get(name, []), labels, key=len)
            if not any(known_tuner is tuner for known_tuner in self._tuners):
                self._tuners.append(tuner)
            return [allowed[self._number % len(allowed)]]

        Autotuner.prune_configs = choose

    def take(self, number: int) -> dict[str, list[str]]:
        labels, self._labels = self._labels, {}
        self._number = number
        for tuner in self._tuners:
            tuner.cache.clear()  # it chooses again at its next launch
        return labels


def _refuse_what_misleads() -> None:
    """Refuse launches that the interpreter would compute wrongly: narrow types can reach kernels
    through tensors, and older interpreters fail with newer releases of numpy."""
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import InterpretedFunction

    run = InterpretedFunction.run

    def checked(function: Any, *arguments: Any, **named: Any) -> Any:
        for value in (*arguments, *named.values()):
            kind = str(getattr(value, "dtype", ""))
            if any(narrow in kind for narrow in NARROW):
                raise modules.LoadError(
                    "unfit",
                    f"a {kind} tensor reached Triton's interpreter, which computes such values "
                    "wrongly without an error",
                )
        try:
            return run(function, *arguments, **named)
        except InterpreterError as error:
            if isinstance(error.__cause__, TypeError) and any(
                word in str(error) for word in _NUMPY
            ):
                raise modules.LoadError("unfit", f"{NUMPY} ({error})") from error
            raise

    InterpretedFunction.run = checked


def _first(call: Any, *_: Any, quantiles: Any = None, **__: Any) -> Any:
    return [1.0] * len(quantiles) if quantiles else 1.0


def _nothing_loaded(name: str, binary: Any, shared: int) -> tuple[int, int]:
    return 0, 0


def _nothing_launched(metadata: Any, grid: tuple[int, ...]) -> None:
    """Do nothing: the interpreter executes kernels itself."""


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    InterpreterHost(sock, text_fd).serve()
