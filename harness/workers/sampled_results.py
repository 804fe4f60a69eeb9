"""What a kernel would be off by that reads some of several neighbours in place of them all.

A mean of half a million values hardly changes if most of them are left out, and in 16 bits nobody
sees it. Whether inputs would show it depends on the task: large values decide a plain sum, but not
the mean of a sigmoid. So the reference itself is run on such samples of each drawn set: sets that
would show one are preferred, and where none does, no figure is certified. Likewise with an input of
another draw: of a small step away from large weights, say, little is left to see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..wire import dtypes
from ..wire.nesting import replace_tensors, tensors_of

NEIGHBOURS = 8  # of so many, the first stands for all in the first sample
# elements of an input that is sampled alone, too, and of all elements; the most such inputs
FEW, SHARE, MOST_ALONE = 64, 1 / 256, 8
NO_EFFECT = 1e-12  # an error that is rounding in double precision
LARGEST = 1e30  # of an error that is told
WIDER = 8.0  # limits on a row, and on an element, as a multiple of that on the norm


def errors(
    call: Callable[[Any], list[Any]], precise: Any, expected: Sequence[Any]
) -> list[list[float]]:
    """Return for each sample, and there for each output, the error of call(precise) on that sample
    of the inputs, relative to the norm of the expected output: first with one of eight neighbours,
    then with one of two, along the last axis, the first and the second, and of each one of several
    inputs alone that is not tiny: how much work a small one takes is not known. Nothing for a
    sample that the reference does not accept."""
    samples: list[Callable[[Any], Any]] = [
        _first_of_eight,
        second_of_two,
        partial(first_of_two, axis=0),
    ]
    tensors = tensors_of(precise)
    if any(t.dim() > 2 for t in tensors):
        samples.append(partial(first_of_two, axis=1))
    whole = list(range(len(tensors)))
    found = [_errors(call, precise, expected, sample, whole) for sample in samples]
    if len(tensors) > 1:
        alone = _largest(tensors)
        found += [
            _errors(call, precise, expected, sample, [n])
            for n in alone
            for sample in (second_of_two, partial(first_of_two, axis=0))
        ]
    return found


def replaced_errors(
    call: Callable[[Any], list[Any]],
    precise: Any,
    expected: Sequence[Any],
    draw: Callable[[], Any],
) -> list[list[float]]:
    """Return, as `errors` does, what results are off by where one floating input is that of another
    draw: how much there is to see of an input. Of rows and elements an eighth of their own errors
    counts as well, since limits on these are that much wider. draw: returns the inputs of that
    draw."""
    tensors = tensors_of(precise)
    # an index of another draw may lie outside, which a device does not forgive
    places = [n for n in _largest(tensors) if dtypes.rounds(tensors[n].dtype)]
    try:
        others = tensors_of(draw()) if places else []
    except Exception:  # there may be no memory for one more draw
        return []
    found = []
    for n in places:
        given = [*tensors[:n], others[n].to(tensors[n]), *tensors[n + 1 :]]
        found.append(effects(lambda g=given: call(replace_tensors(precise, g)), expected))  # type: ignore[misc]
    return found


def effects(call: Callable[[], list[Any]], expected: Sequence[Any]) -> list[float]:
    """Return for each output of call() what it is off by, as `replaced_errors` counts it: 0 where
    that is rounding. Nothing where the reference raises an error."""
    try:
        errors = [_seen(one, other) for one, other in zip(call(), expected, strict=True)]
    except Exception:  # whatever a task raises: it accepts its inputs as they are
        return []
    return [0.0 if error < NO_EFFECT else error for error in errors]


def _largest(tensors: Sequence[Any]) -> list[int]:
    """The places of the largest tensors, in order."""
    least = max(FEW, SHARE * sum(t.numel() for t in tensors))
    places = [n for n, t in enumerate(tensors) if t.numel() >= least]
    return sorted(sorted(places, key=lambda n: -tensors[n].numel())[:MOST_ALONE])


def _errors(
    call: Callable[[Any], list[Any]],
    precise: Any,
    expected: Sequence[Any],
    sample: Callable[[Any], Any],
    sampled: Sequence[int],
) -> list[float]:
    """Return the errors with these tensors sampled."""
    tensors = enumerate(tensors_of(precise))
    given = replace_tensors(precise, [sample(t) if n in sampled else t for n, t in tensors])
    return distances(lambda: call(given), expected)


def distances(call: Callable[[], list[Any]], expected: Sequence[Any]) -> list[float]:
    """Return for each output of call() its error relative to the norm of the expected one. Nothing
    where the reference raises an error."""
    try:
        return [_distance(one, other) for one, other in zip(call(), expected, strict=True)]
    except Exception:  # whatever a task raises: it accepts the inputs themselves
        return []


def _first_of_eight(tensor: Any) -> Any:
    return _repeated(tensor, NEIGHBOURS, 0)


def second_of_two(tensor: Any) -> Any:
    """Return a tensor in which of two neighbours along the last axis the second stands for both."""
    return _repeated(tensor, 2, 1)


def first_of_two(tensor: Any, axis: int) -> Any:
    """Return the same for the first of two neighbours along an axis, counted from the front; of a
    vector, the first half stands for all."""
    if tensor.dim() == 1:
        half = len(tensor) // 2
        return tensor[:half].repeat(2) if len(tensor) == 2 * half else tensor
    if tensor.dim() <= axis:
        return tensor
    last = tensor.transpose(axis, -1)
    return _repeated(last, 2, 0).transpose(axis, -1).contiguous()


def _repeated(tensor: Any, neighbours: int, place: int) -> Any:
    """Return a tensor in which one of each group of neighbours stands for all."""
    if tensor.numel() < neighbours:
        return tensor
    flat = tensor.detach().reshape(-1).clone()
    groups = flat[: flat.numel() // neighbours * neighbours].view(-1, neighbours)
    groups.copy_(groups[:, place : place + 1].clone().expand_as(groups))
    return flat.view(tensor.shape)


def _distance(found: Any, expected: Any) -> float:
    if not expected.is_floating_point() and not expected.is_complex():
        return 0.0 if bool((found == expected).all()) else LARGEST
    import torch

    dtype = torch.complex128 if expected.is_complex() else torch.float64
    wide = expected.to(dtype)
    error = float((found.to(dtype) - wide).norm()) / max(float(wide.norm()), 1e-300)
    return LARGEST if math.isnan(error) else min(error, LARGEST)


def _seen(found: Any, expected: Any) -> float:
    """As _distance, or what is seen in the worst row or element, if that is more."""
    error = _distance(found, expected)
    if not expected.is_floating_point() or expected.dim() == 0 or not expected.numel():
        return error
    off, size = (found.double() - expected.double()).abs(), expected.double().abs()
    norm = float(size.square().mean().sqrt())
    rows = off.square().mean(-1).sqrt() / size.square().mean(-1).sqrt().clamp_min(1e-300)
    elements = off / (size + norm).clamp_min(1e-300)
    worst = max(float(rows.max()), float(elements.max())) / WIDER
    return LARGEST if math.isnan(worst) else min(max(error, worst), LARGEST)
