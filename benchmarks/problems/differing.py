"""Whether a mistake changes what a problem computes: original and mistaken text, side by side on
the CPU, on inputs cut down to what it bears.

    python -m benchmarks.problems.differing < {"source": …, "mistaken": [text, …]} > {"number": …,
    "difference": …, "with": …}

Runs other people's code as it is: in a process of its own, which the caller ends after a while.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

DIFFERS = 1e-4  # norm-wise, relative: more than any order of summation makes of float32
NOISE = 10.0  # times the difference of two calls of the original
LEAST = 16  # numbers up to it are left alone: kernel sizes, strides, groups
SMALL_BYTES = 64 << 20  # of inputs with which a problem is tried as it is
ATTEMPT_S = 20


def main() -> None:
    asked = json.load(sys.stdin)
    answers = sys.stdout
    sys.stdout = sys.stderr  # a problem may print
    json.dump(_first(asked["source"], asked["mistaken"]), answers)


def _first(source: str, mistaken: list[str]) -> dict[str, Any]:
    """The first text that differs, by number, how much, and what was cut down; number None where
    none does, with the reasons."""
    reasons: dict[str, str] = {}
    for said, cut in _cuts():
        try:
            with _limited():
                wanted, state, given = _run(source, cut, None, None)
                noise = _difference(wanted, _run(source, cut, state, given)[0])
                if not all(bool(t.any()) for t in wanted):
                    raise ValueError(
                        "its results are zero there, and anything differs from nothing"
                    )
        except Exception as error:  # the problem does not bear this cut
            reasons[said] = _brief(error)
            continue
        for number, text in enumerate(mistaken):
            # a mistake may raise: then another is taken
            with contextlib.suppress(Exception), _limited():
                difference = _difference(wanted, _run(text, cut, state, given)[0])
                if difference > max(DIFFERS, NOISE * noise):
                    return {"number": number, "difference": difference, "with": said}
        reasons[said] = f"none of {len(mistaken)} mistakes makes a difference of the same shape"
    return {"number": None, "reasons": reasons}


def _cuts() -> Iterator[tuple[str, Callable[[types.ModuleType], None]]]:
    """How a problem's sizes are made smaller, the smallest first: what is divided by the same
    number stays divisible."""
    yield "sizes divided by 16", lambda module: _divide(module, 16)
    yield "sizes divided by 4", lambda module: _divide(module, 4)
    yield "a batch of 2", _small_batch
    yield "as it is", _as_it_is


def _divide(module: types.ModuleType, by: int) -> None:
    def smaller(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(smaller, value))
        return (
            max(value // by, 2)
            if isinstance(value, int) and not isinstance(value, bool) and value > LEAST
            else value
        )

    for name, value in list(vars(module).items()):
        if isinstance(value, (int, tuple)) and not name.startswith("__"):
            setattr(module, name, smaller(value))


def _small_batch(module: types.ModuleType) -> None:
    names = [n for n, v in vars(module).items() if "batch" in n.lower() and isinstance(v, int)]
    if not names:
        raise ValueError("no size of a batch has a name")
    for name in names:
        setattr(module, name, 2)


def _as_it_is(module: types.ModuleType) -> None:
    import torch

    with torch.device("meta"):
        size = sum(t.nbytes for t in module.get_inputs() if isinstance(t, torch.Tensor))
    if size > SMALL_BYTES:
        raise ValueError(f"its inputs have {size >> 20} MiB")


def _run(
    source: str, cut: Callable[[types.ModuleType], None], state: Any, given: Any
) -> tuple[list[Any], Any, Any]:
    """Outputs, the model's state and the inputs; with those of another run where they are given."""
    import torch

    module = types.ModuleType("problem")
    exec(compile(source, "problem.py", "exec"), vars(module))
    cut(module)
    torch.manual_seed(1)
    model = module.Model(*module.get_init_inputs())
    before = {k: v.clone() for k, v in model.state_dict().items()} if state is None else state
    model.load_state_dict(before)
    inputs = module.get_inputs() if given is None else given
    torch.manual_seed(2)
    with torch.no_grad():
        outputs = model(*[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs])
    return (
        (
            [outputs]
            if isinstance(outputs, torch.Tensor)
            else [t for t in outputs if isinstance(t, torch.Tensor)]
        ),
        before,
        inputs,
    )


def _difference(wanted: list[Any], found: list[Any]) -> float:
    """Of the output that differs most. Raises ValueError where shapes or dtypes differ or something
    is not finite."""
    worst = 0.0
    if [(t.shape, t.dtype) for t in wanted] != [(t.shape, t.dtype) for t in found]:
        raise ValueError("shapes or dtypes differ")
    for one, other in zip(wanted, found, strict=True):
        one, other = one.double(), other.double()
        if not bool(one.isfinite().all() and other.isfinite().all()):
            raise ValueError("not finite")
        worst = max(worst, float((one - other).norm() / one.norm().clamp(min=1e-30)))
    return worst


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {ATTEMPT_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(ATTEMPT_S)
    try:
        yield
    finally:
        signal.alarm(0)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


if __name__ == "__main__":
    main()
