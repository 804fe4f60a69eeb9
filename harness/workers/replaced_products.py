"""What results would be off by if one of the reference's matrix products was not computed.

An input may show and a part of the work on it may not: in 16 bits nobody sees a small step of
attention beside the activations that it starts from, nor the last iterations of an optimizer's step
beside weights that lie in one buffer with the gradient. So the reference is run with the result of
a product replaced, by what a candidate that leaves it out could have instead: by nothing, by a
multiple of what goes into it, which is what skipping a step leaves, and by that of another draw.

Only products are replaced. Other results, such as the largest value of a row in a softmax, may have
no effect by mathematics, or take no time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire.nesting import replace_tensors, tensors_of
from . import sampled_results

# Of the products, so many with the most operations are replaced, and none with a smaller share of
# all operations: leaving that out saves nothing that is called faster.
MOST, SHARE = 8, 1 / 64
WAYS = 3  # to replace a product
SECONDS = 10.0  # for the replaced calls of a set; at least one product is replaced
KEPT_BYTES = 1 << 29  # of products of another draw

_FIRST = frozenset(["mm", "bmm", "mv", "dot", "vdot", "_scaled_mm", "_int_mm"])
_ADDING = frozenset(["addmm", "baddbmm", "addmv", "addbmm"])  # the first argument is a summand
_CONVOLUTIONS = frozenset(["convolution", "_convolution", "convolution_overrideable"])
ATTENTION = ("scaled_dot_product", "flex_attention")  # parts of names
_Call = Callable[[Any], list[Any]]
_At = Callable[[int, "_Product"], None]


@dataclass(frozen=True)
class _Product:
    """A product as it is computed. operations: multiplications and additions, roughly. results: its
    floating tensors. reads: the tensors that it combines. summand: what the operator adds to the
    product, None without one: only the product is replaced."""

    operations: int
    results: Sequence[Any]
    reads: Sequence[Any]
    summand: Any = None

    def alone(self) -> list[Any]:
        """Return copies of the results without the summand."""
        if self.summand is None:
            return [t.detach().clone() for t in self.results]
        return [t - self.summand for t in self.results]

    def like(self) -> Any:
        """Return the first tensor that it reads with the shape of its only result, or None."""
        if len(self.results) != 1:
            return None
        (result,) = self.results
        return next(
            (t for t in self.reads if t.shape == result.shape and t.dtype == result.dtype), None
        )


def errors(
    call: _Call, precise: Any, expected: Sequence[Any], draw: Callable[[], Any]
) -> list[list[float]]:
    """Return what results are off by, see sampled_results.effects, where one product is replaced.
    For each product of call(precise) in order, WAYS entries: replaced by zeros, by the nearest
    multiple of what it reads, if that has its shape, and by that of another draw. Nothing where it
    is not replaced so. draw: returns the inputs of that draw."""
    products: list[tuple[int, bool]] = []
    start = time.monotonic()
    try:
        _call_watched(
            call,
            precise,
            lambda _, product: products.append((product.operations, product.like() is not None)),
        )
    except Exception:  # it accepts the inputs themselves, but perhaps not that it is watched
        return []
    chosen = _largest([operations for operations, _ in products])
    seconds = max(time.monotonic() - start, 1e-6)
    chosen = chosen[: max(1, int(SECONDS / (WAYS * seconds)))]
    others = _of_another_draw(call, precise, draw, chosen) if chosen else {}
    found: list[list[float]] = [[] for _ in range(WAYS * len(products))]

    def replace(number: int, way: int, values: Callable[[_Product], Sequence[Any]]) -> None:
        def at(place: int, product: _Product) -> None:
            if place == number:
                for result, value in zip(product.results, values(product), strict=True):
                    new = value if product.summand is None else value + product.summand
                    result.copy_(new.expand_as(result))

        found[WAYS * number + way] = sampled_results.effects(
            lambda: _call_watched(call, precise, at), expected
        )

    for number in chosen:
        replace(number, 0, lambda product: [t.new_zeros(()) for t in product.results])
        if products[number][1]:
            replace(number, 1, lambda product: [_nearest_multiple(product)])
        if number in others:
            replace(number, 2, lambda _, values=others[number]: values)  # type: ignore[misc]
    return found


def _largest(operations: Sequence[int]) -> list[int]:
    """Return the places of the products with the most operations; of equal ones the last come
    first, since less follows that may make more of a difference."""
    least = max(1.0, SHARE * sum(operations))
    places = [n for n, count in enumerate(operations) if count >= least]
    return sorted(places, key=lambda n: (-operations[n], -n))[:MOST]


def _of_another_draw(
    call: _Call, precise: Any, draw: Callable[[], Any], chosen: Sequence[int]
) -> dict[int, list[Any]]:
    """Return the results of the chosen products on the inputs of another draw, as far as they
    fit."""
    kept: dict[int, list[Any]] = {}
    left = KEPT_BYTES

    def at(place: int, product: _Product) -> None:
        nonlocal left
        size = sum(t.numel() * t.itemsize for t in product.results)
        if place in chosen and size <= left:
            left -= size
            kept[place] = product.alone()

    try:
        both = zip(tensors_of(precise), tensors_of(draw()), strict=True)
        given = replace_tensors(precise, [other.to(tensor) for tensor, other in both])
        _call_watched(call, given, at)
    except Exception:  # there may be no memory for one more draw
        return {}
    return kept


def _nearest_multiple(product: _Product) -> Any:
    """Return the multiple of what a product reads that is nearest to its result, by norm."""
    import torch

    (result,), given = product.alone(), product.like()
    dtype = torch.complex128 if result.is_complex() else torch.float64
    wide, other = result.to(dtype), given.to(dtype)
    factor = torch.vdot(other.flatten(), wide.flatten()) / other.abs().square().sum()
    return (factor * other).to(result.dtype)


def _call_watched(call: _Call, inputs: Any, at: _At) -> list[Any]:
    """Run call(inputs). at: is told the number and the values of each product once it is computed,
    and may overwrite its results."""
    from .watching_mode import WatchingMode, is_higher_order

    numbers = itertools.count()

    class ProductMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func.name() if is_higher_order(func) else str(func).split(".")[1]
            name, beta = name.strip("_") or name, (kwargs or {}).get("beta", 1)
            # before an operator in place overwrites it
            summand = beta * args[0] if name in _ADDING and beta else None
            result = self.run(func, args, kwargs or {})
            if (product := _product(name, args, result, summand)) is not None:
                at(next(numbers), product)
            return result

    with ProductMode():
        return call(inputs)


def _product(name: str, args: Sequence[Any], result: Any, summand: Any) -> _Product | None:
    """Return what an operator multiplies, None if it is no matrix product. name: without the mark
    of operators in place."""
    results = [t for t in tensors_of(result) if t.is_floating_point() or t.is_complex()]
    tensors = [t for t in args if hasattr(t, "untyped_storage")]
    if not results or len(tensors) < 2:
        return None
    one, other = tensors[:2]
    if name in _FIRST:
        operations, reads = results[0].numel() * one.shape[-1], [one, other]
    elif name in _ADDING:
        # of addbmm, the products of a batch are added up
        operations, reads = other.numel() * tensors[2].shape[-1], tensors[1:3]
        operations = operations if name != "addmv" else other.numel()
    elif name in _CONVOLUTIONS:
        passed = one if args[6] else results[0]  # by the weights; args[6]: transposed
        operations = passed.numel() * other.numel() // max(1, other.shape[0])
        reads = [one, other]
    elif name == "convolution_backward":  # of an output, an input and weights
        weights, passed = tensors[2], other if args[7] else one
        operations = 2 * passed.numel() * weights.numel() // max(1, weights.shape[0])
        reads = [one, other]
    elif any(part in name for part in ATTENTION):
        operations, reads = 2 * one.numel() * other.shape[-2], tensors[:3]
    else:
        return None
    return _Product(2 * operations, results, reads, summand)
