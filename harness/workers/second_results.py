"""A second result of the reference in high precision, which shows how uncertain the first one is.

Limits come from the framework's error against high precision. There are three kinds of tasks where
this error is too small, or zero, although honest results differ by more:

- forward itself rounds to a narrower dtype (a product in bfloat16, then `.float()`). The reference
  in high precision rounds there as well, and a kernel with another order of summation gets the
  other neighbour where a value lies near the middle. The second result is computed without these
  casts.
- The task is in float64, so that no higher precision exists. The second result is that of inputs
  that were moved by one rounding, which shows what the rounding errors of an honest algorithm are
  multiplied by (the conditioning of a system of equations).
- A task in single precision solves such systems itself. The worst conditioned of many decides the
  norm, and there the framework's error is a single lucky or unlucky one. Inputs are moved likewise,
  by one rounding in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from ..wire import dtypes
from ..wire.nesting import map_tensors

Kind = Literal["", "wide", "moved", "moved by norm", "moved in single"]
"""wide: without casts to narrower dtypes. moved: with each value moved by one rounding. moved by
norm: by a few roundings of the value plus the root mean square of its tensor, as the errors of sums
are. moved in single: by one rounding in single precision. "": none."""
DOUBLE = ("float64", "complex128")
# roundings of the output's dtype by which results without narrow casts must differ: one or two are
# allowed for in any case
LEAST = 4.0
# how far inputs are moved, relative to themselves
EPS = {"moved": 2.0**-52, "moved by norm": 2.0**-52, "moved in single": 2.0**-23}
MOVED = 2.0**-30  # the largest move of `moved`, where the dtype allows it
# by norm so many times as far: a factorization rounds more than once, and one draw of signs may be
# a lucky one
BY_NORM = 4.0
# operators that multiply errors of their inputs by a condition number, as their names begin
_SOLVERS = (
    "linalg_inv", "_linalg_solve", "linalg_solve", "linalg_lu", "linalg_cholesky", "linalg_ldl",
    "linalg_qr", "linalg_lstsq", "linalg_pinv", "linalg_eig", "_linalg_eig", "linalg_svd",
    "_linalg_svd", "_linalg_det", "_linalg_slogdet", "cholesky", "_cholesky_solve",
    "triangular_solve", "lu_solve", "geqrf",
)  # fmt: skip
_Call = Callable[[Any], list[Any]]


def solves(names: Iterable[str]) -> bool:
    """Return whether one of these operators, by full name, solves a system of equations or
    factorizes a matrix."""
    return any(name.split(".")[1].startswith(_SOLVERS) for name in names if "." in name)


def kind_for(
    call: _Call, arguments: Any, results: Sequence[Any], *, pointwise: bool, solving: bool
) -> Kind:
    """Return which second result a case needs. call, arguments: in high precision. results: the
    framework's own outputs. pointwise: no two elements of a tensor are combined. solving: it solves
    systems in single precision, see solves, and these arguments are in double."""
    if any(dtypes.name_of(t.dtype) in DOUBLE for t in results):
        return "moved" if pointwise else "moved by norm"
    casts = _NarrowCasts()
    try:
        with casts.kept_wide():
            wide = call(arguments)
        expected = call(arguments) if casts.count else []
    except Exception:  # dtypes that no longer match
        expected = wide = []
    if [t.shape for t in wide] == [t.shape for t in results]:
        both = zip(expected, wide, results, strict=bool(expected))
        if any(_differ(*three) for three in both):
            return "wide"
    return "moved in single" if solving else ""


def compute(kind: Kind, call: _Call, arguments: Any, seed: int) -> list[Any]:
    """Return the second results of call(arguments), [] without a kind. seed: determines how inputs
    are moved."""
    if kind == "wide":
        with _NarrowCasts().kept_wide():
            return call(arguments)
    return call(_moved(kind, arguments, seed)) if kind else []


def moved(arguments: Any, seed: int) -> Any:
    """Return arguments with each number moved up relative to itself, each by another amount. seed:
    determines the amounts."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def move(tensor: Any) -> Any:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        by = torch.rand(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)
        most = max(MOVED, 8 * torch.finfo(tensor.dtype).eps)
        return (tensor + most * by * tensor).to(tensor.dtype)

    return map_tensors(arguments, move)


def moved_apart(value: Any, by: float, seed: int) -> Any:
    """Return a tensor, or a structure of tensors, with each number moved up or down by `by` times
    itself. seed: determines which. The results show what becomes of roundings of that size: of the
    terms of sums, for example. Numbers of 8 bits are left."""
    import torch

    # drawn where the tensors are: a host takes 0.1 s for 16 million numbers
    generators: dict[Any, torch.Generator] = {}

    def move(tensor: Any) -> Any:
        if not dtypes.rounds(tensor.dtype) or dtypes.is_float8(tensor):
            return tensor
        place = tensor.device
        if place not in generators:
            generators[place] = torch.Generator(place).manual_seed(seed)
        up = torch.randint(
            0, 2, tensor.shape, generator=generators[place], dtype=torch.int8, device=place
        )
        higher, lower = (torch.tensor(1 + s, dtype=torch.float64, device=place) for s in (by, -by))
        return (tensor * torch.where(up.bool(), higher, lower)).to(tensor.dtype)

    return map_tensors(value, move)


def _differ(expected: Any, wide: Any, result: Any) -> bool:
    if not dtypes.rounds(result.dtype):
        return False
    expected, wide = dtypes.comparable(expected), dtypes.comparable(wide)
    off = float((wide - expected).abs().double().square().sum()) ** 0.5
    size = float(expected.abs().double().square().sum()) ** 0.5
    least = LEAST * dtypes.ROUNDOFF[dtypes.name_of(result.dtype)]
    return bool(off > least * size)


def _moved(kind: Kind, arguments: Any, seed: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)

    def move(tensor: Any) -> Any:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        up = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device)
        size = tensor.abs()
        if kind == "moved by norm" and tensor.numel():
            size = BY_NORM * (size + size.square().mean().sqrt())
        return tensor + EPS[kind] * (2.0 * up.double() - 1.0) * size

    return map_tensors(arguments, move)


class _NarrowCasts:
    """Casts of floating tensors to narrower dtypes. count: how many there were."""

    def __init__(self) -> None:
        self.count = 0

    def kept_wide(self) -> Any:
        """Return a context in which such casts keep the dtype of their argument."""
        from .watching_mode import WatchingMode

        casts = self

        class WideMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
            def __torch_dispatch__(
                self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                kwargs = dict(kwargs or {})
                if str(func).startswith("aten._to_copy") and _narrows(
                    args[0].dtype, kwargs.get("dtype")
                ):
                    casts.count += 1
                    kwargs["dtype"] = args[0].dtype
                return self.run(func, args, kwargs)

        return WideMode()


def _narrows(before: Any, after: Any) -> bool:
    """Return whether a cast loses bits of floating values and leaves at least those of 16 bits:
    fewer are a format of their own, whose values the task asks for."""
    if after is None or not (before.is_floating_point and after.is_floating_point):
        return False
    return bool(before.itemsize > after.itemsize >= 2)
