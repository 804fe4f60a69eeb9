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

from ..wire.nesting import replace_tensors, tensors_of

NEIGHBOURS = 8  # of so many, the first stands for all in the first sample
FEW, MOST_ALONE = 64, 8  # elements of an input that is sampled alone, too; and the most such inputs
LARGEST = 1e30  # of an error that is told


def errors(
    call: Callable[[Any], list[Any]], precise: Any, expected: Sequence[Any]
) -> list[list[float]]:
    """Return for each sample, and there for each output, the error of call(precise) on that sample
    of the inputs, relative to the norm of the expected output: first with one of eight neighbours,
    then with one of two, along the last axis, the first and the second, and of each one of several
    inputs alone: how much work a small one takes is not known. Nothing for a sample that the
    reference does not accept."""
    samples: list[Callable[[Any], Any]] = [
        _first_of_eight,
        _second_of_two,
        partial(_first_of_two, axis=0),
    ]
    tensors = tensors_of(precise)
    if any(t.dim() > 2 for t in tensors):
        samples.append(partial(_first_of_two, axis=1))
    whole = list(range(len(tensors)))
    found = [_errors(call, precise, expected, sample, whole) for sample in samples]
    if len(tensors) > 1:
        alone = _largest(tensors)
        found += [_errors(call, precise, expected, _second_of_two, [n]) for n in alone]
    return found


def replaced_errors(
    call: Callable[[Any], list[Any]], precise: Any, expected: Sequence[Any], other: Any
) -> list[list[float]]:
    """Return, as `errors` does, what results are off by where one input is that of another draw:
    how much there is to see of an input. other: the inputs of that draw. Nothing for a single
    input."""
    tensors = tensors_of(precise)
    if len(tensors) < 2:
        return []
    others = tensors_of(other)
    return [
        _errors(call, precise, expected, lambda _, n=n: others[n], [n])  # type: ignore[misc]
        for n in _largest(tensors)
    ]


def _largest(tensors: Sequence[Any]) -> list[int]:
    """The places of the largest tensors, in order."""
    places = [n for n, t in enumerate(tensors) if t.numel() >= FEW]
    return sorted(sorted(places, key=lambda n: -tensors[n].numel())[:MOST_ALONE])


def _errors(
    call: Callable[[Any], list[Any]],
    precise: Any,
    expected: Sequence[Any],
    sample: Callable[[Any], Any],
    sampled: Sequence[int],
) -> list[float]:
    """Return the errors with these tensors sampled."""
    try:
        tensors = enumerate(tensors_of(precise))
        given = replace_tensors(precise, [sample(t) if n in sampled else t for n, t in tensors])
        return [_distance(one, other) for one, other in zip(call(given), expected, strict=True)]
    except Exception:  # whatever a task raises: it accepts the inputs themselves
        return []


def _first_of_eight(tensor: Any) -> Any:
    return _repeated(tensor, NEIGHBOURS, 0)


def _second_of_two(tensor: Any) -> Any:
    return _repeated(tensor, 2, 1)


def _first_of_two(tensor: Any, axis: int) -> Any:
    """Of two neighbours along an axis the first stands for both; of a vector, the first half."""
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
