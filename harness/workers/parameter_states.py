"""Other values of a model's parameters and buffers, as plausible as those that it was constructed
with. A seed says which, and of which kind they are.

A kernel is used with parameters that were trained. At first a weight is small beside what it may
become, and a layer may be switched off by a factor of 1e-6: who leaves out what such parameters
leave no trace of is right with these alone.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal

Kind = Literal["changed", "grown", "partly grown"]
"""changed: each value by a quarter. grown: besides, what is the same everywhere becomes of order 1,
and the rest two to eight times as large. partly grown: so a third of the tensors."""
KINDS: tuple[Kind, ...] = ("changed", "grown", "partly grown")
SHARES: dict[Kind, float] = {"changed": 0.0, "grown": 1.0, "partly grown": 1 / 3}
LEAST_FACTOR, MOST_FACTOR = 2.0, 8.0
SMALL = 0.1  # what is the same everywhere and smaller than this is off


def draw(kind: Kind) -> int:
    """The seed, above 0, of a state that nobody can foresee."""
    return (secrets.randbits(40) + 1) * len(KINDS) + KINDS.index(kind)


def values(before: dict[str, Any], seed: int, device: str) -> list[Any]:
    """Of all parameters; floating ones are computed on the device of the model: a host takes a
    minute for a thousand million of them. What is not finite stays (a mask's -inf), running
    variances stay positive, and integers change their places, unless they are sorted: they may be
    indices, or a table."""
    import torch

    share = SHARES[KINDS[seed % len(KINDS)]]
    state = []
    for number, (name, value) in enumerate(before.items()):
        generator_device = device if value.is_floating_point() or value.is_complex() else "cpu"
        generator = torch.Generator(generator_device).manual_seed(seed + number)
        grows = share > 0 and _uniform(generator, 0.0, 1.0) < share
        other = _new_value(name, value.to(generator_device), generator, grows=grows).to(
            value.device
        )
        if other.stride() != value.stride():  # files hold both in one layout, a transposed one's
            other = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            ).copy_(other)
        state.append(other)
    return state


def _new_value(name: str, value: Any, generator: Any, *, grows: bool) -> Any:
    import torch

    if value.is_complex():
        parts = torch.view_as_real(value.resolve_conj())
        return torch.view_as_complex(_new_value(name, parts, generator, grows=grows))
    if not value.is_floating_point():
        flat = value.reshape(-1)
        wide = flat.to(torch.int64)
        if flat.numel() < 2 or bool((wide[1:] >= wide[:-1]).all()):
            return value
        return flat[torch.randperm(flat.numel(), generator=generator)].view(value.shape)
    original = value.float()
    finite = original.isfinite()
    sample = original if bool(finite.all()) else original[finite]
    positive = "var" in name.rsplit(".", 1)[-1]
    changed = _change(original, sample, generator, positive=positive)
    if grows and sample.numel():
        changed = _grow(changed, sample, generator, positive=positive)
    changed = changed if sample is original else torch.where(finite, changed, original)
    return changed.to(value.dtype)


def _change(original: Any, sample: Any, generator: Any, *, positive: bool) -> Any:
    """sample: its finite values."""
    import torch

    noise = torch.randn(
        original.shape, generator=generator, dtype=torch.float32, device=generator.device
    )
    scale = (
        (float(sample.std(correction=0)) or float(sample.abs().mean()) or 1.0)
        if sample.numel()
        else 1.0
    )
    # in place: parameters may be a large part of the memory that there is
    changed = noise.flip(0).mul_(0 if positive else 0.25 * scale)
    changed.addcmul_(original, noise.mul_(0.25).add_(1))
    return changed.abs_() if positive else changed


def _grow(changed: Any, sample: Any, generator: Any, *, positive: bool) -> Any:
    """sample: the finite values before. A single number, a temperature perhaps, is multiplied
    alone."""
    import torch

    largest = float(sample.abs().max())
    alike = float(sample.std(correction=0)) <= 1e-3 * largest
    if alike and not positive and (largest < SMALL if sample.numel() > 1 else largest == 0):
        noise = torch.randn(
            changed.shape, generator=generator, dtype=torch.float32, device=generator.device
        )
        return changed.add_(noise, alpha=0.5)
    if alike:
        return changed.mul_(2.0 ** _uniform(generator, -1.0, 1.0))
    return changed.mul_(_uniform(generator, LEAST_FACTOR, MOST_FACTOR))


def _uniform(generator: Any, low: float, high: float) -> float:
    import torch

    return low + (high - low) * float(torch.rand(1, generator=generator, device=generator.device))
