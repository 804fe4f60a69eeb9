"""Alternative values of a model's parameters and buffers, as plausible as the initial ones. A seed
determines the values and their kind.

Kernels are used with trained parameters. Initially a weight is small compared with what it may
become, and a layer may be switched off by a factor of 1e-6. A candidate that omits work which such
parameters hide is right with the initial ones only.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Container
from typing import Any, Literal

from .family_values import FLOATING
from .value_order import is_ordered, mix, sort_like, sorted_axes, unique_axes

Kind = Literal[
    "changed",
    "grown",
    "partly grown",
    "uneven",
    "raised",
    "moved",
    "block changed",
    "some changed",
]
"""changed: each value changes by about a quarter. block changed: so does a block of a quarter to
half of each tensor's elements. some changed: so do all values of some tensors, and such blocks of
the others. grown: also, small constant tensors become of order 1, and the others grow two to eight
times. partly grown: this happens to a third of the tensors. uneven, raised, moved: changed, and
then as inputs of these families; of uneven and raised ones not the vectors beside matrices, since a
large factor on a result hides what the matrices change, and nobody saves time with a sample of a
vector."""
KINDS: tuple[Kind, ...] = (
    "changed", "grown", "partly grown", "uneven", "raised", "moved", "block changed",
    "some changed",
)  # fmt: skip
# in order, with the same new values, so that each changes what the one before has left
CHANGES: tuple[Kind, ...] = ("block changed", "some changed", "changed")
SHARES: dict[Kind, float] = {"grown": 1.0, "partly grown": 1 / 3}
LEAST_FACTOR, MOST_FACTOR = 2.0, 8.0
SQUARES = ("var", "sq")  # in names of what averages squares: a root of it is taken
FEW = 4  # elements that change together
SMALL = 0.1  # a constant tensor below this counts as switched off


def draw(kind: Kind) -> int:
    """Draw the seed, above 0, of an unpredictable state."""
    return (secrets.randbits(40) + 1) * len(KINDS) + KINDS.index(kind)


def draw_changes() -> list[int]:
    """Draw the seeds of one state of each kind in CHANGES: who looks at one parameter, or at
    neighbouring elements, for changes is likely to meet one in which there are none."""
    first = draw(KINDS[0])
    return [first + KINDS.index(kind) for kind in CHANGES]


def kind_of(seed: int) -> Kind:
    """Return the kind of a state that was drawn."""
    return KINDS[seed % len(KINDS)]


def masks(before: dict[str, Any], model: Any) -> frozenset[str]:
    """Return the names of the model's buffers that hold both 0 and 1 and nothing else. Training
    never changes them, and a kernel may know them (that attention is causal). Running averages
    start as all 0 or all 1, so that they do not count. before: the initial parameters and
    buffers."""
    trained = dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}
    return frozenset(
        name for name, value in before.items() if name not in trained and _is_mask(value)
    )


def _is_mask(value: Any) -> bool:
    zeros, ones = value == 0, value == 1
    return bool((zeros | ones).all() and zeros.any() and ones.any())


def renewed(before: dict[str, Any], seed: int, device: str = "cpu") -> dict[str, Any]:
    """Return other values of what a forward updates, computed on `device`, but for those of
    masks."""
    kept = [name for name, value in before.items() if _is_mask(value)]
    return dict(zip(before, values(before, seed, device, kept), strict=True))


def values(
    before: dict[str, Any], seed: int, device: str, kept: Container[str] = frozenset()
) -> list[Any]:
    """Return new values of all parameters and buffers but those in `kept`. Floating ones are
    computed on the model's device, since a host takes a minute for 10^9 of them. Non-finite values
    are kept (a mask's -inf), variances and averages of squares do not become negative, sorted
    values stay sorted, and integers are permuted unless they are sorted: they may be indices, or a
    table."""
    import torch

    kind, seed = kind_of(seed), seed // len(KINDS) * len(KINDS)
    free = [name for name in before if name not in kept]
    whole = {"block changed": [], "some changed": _some(free, seed)}.get(kind, free)
    share = SHARES.get(kind, 0.0)
    state = []
    has_matrices = any(
        value.dim() > 1 and value.is_floating_point() and name not in kept
        for name, value in before.items()
    )
    for number, (name, value) in enumerate(before.items()):
        if name in kept:
            state.append(value)
            continue
        generator_device = device if value.is_floating_point() or value.is_complex() else "cpu"
        generator = torch.Generator(generator_device).manual_seed(seed + number)
        grows = share > 0 and _uniform(generator, 0.0, 1.0) < share
        small = has_matrices and value.dim() < 2
        each: Kind = "changed" if small and kind in ("uneven", "raised") else kind
        other = _new_value(name, value.to(generator_device), generator, each, grows=grows).to(
            value.device
        )
        if name not in whole:
            other = _in_a_block(value, other, seed + number)
        if other.stride() != value.stride():  # old and new values have one layout in files
            other = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            ).copy_(other)
        state.append(other)
    return state


def _some(names: list[str], seed: int) -> list[str]:
    """Return some of these names, but not all of several."""
    chance = random.Random(seed)
    return chance.sample(names, chance.randint(1, len(names) - 1)) if len(names) > 1 else names


def _in_a_block(value: Any, other: Any, seed: int) -> Any:
    """Return a value that is another one in a random block of neighbouring elements. Integers,
    sorted values and a few elements stay, since they may mean something together."""
    count = value.numel()
    if count < FEW or not (value.is_complex() or value.is_floating_point()):
        return value
    if not value.is_complex() and sorted_axes(value):
        return value
    chance = random.Random(seed)
    size = chance.randint(-(-count // 4), count // 2)
    start = chance.randint(0, count - size)
    mixed = value.contiguous().clone()
    mixed.view(-1)[start : start + size] = other.contiguous().view(-1)[start : start + size]
    return mixed


def _new_value(name: str, value: Any, generator: Any, kind: Kind, *, grows: bool) -> Any:
    import torch

    if value.is_complex():
        parts = torch.view_as_real(value.resolve_conj())
        return torch.view_as_complex(_new_value(name, parts, generator, kind, grows=grows))
    if not value.is_floating_point():
        if is_ordered(value):
            return value
        return mix(value, unique_axes(value), generator)
    original = value.float()
    finite = original.isfinite()
    sample = original if bool(finite.all()) else original[finite]
    positive = any(part in name.rsplit(".", 1)[-1] for part in SQUARES) and bool(
        (sample >= 0).all()
    )
    changed = _change(original, sample, generator, positive=positive)
    if grows and sample.numel():
        changed = _grow(changed, sample, generator, positive=positive)
    if kind in FLOATING and sample is original and value.numel() > 1:
        limit = min(torch.finfo(value.dtype).max, torch.finfo(changed.dtype).max) / 4
        changed = FLOATING[kind](changed.contiguous(), generator).clamp_(-limit, limit)
        changed = changed.abs_() if positive else changed
    # rounding to fewer bits must not overflow
    limit = min(torch.finfo(value.dtype).max, torch.finfo(changed.dtype).max)
    changed = changed.clamp_(-limit, limit)
    changed = changed if sample is original else torch.where(finite, changed, original)
    return sort_like(changed, sorted_axes(value)).to(value.dtype)


def _change(original: Any, sample: Any, generator: Any, *, positive: bool) -> Any:
    """Change each value by about a quarter. sample: the finite values of `original`."""
    import torch

    noise = torch.randn(
        original.shape, generator=generator, dtype=torch.float32, device=generator.device
    )
    scale = (
        (float(sample.std(correction=0)) or float(sample.abs().mean()) or 1.0)
        if sample.numel()
        else 1.0
    )
    # in place: parameters may take a large part of the memory
    scaled_only = positive and bool(sample.any())  # all zeros have nothing to scale
    changed = noise.flip(0).mul_(0 if scaled_only else 0.25 * scale)
    changed.addcmul_(original, noise.mul_(0.25).add_(1))
    return changed.abs_() if positive else changed


def _grow(changed: Any, sample: Any, generator: Any, *, positive: bool) -> Any:
    """Let the values grow. sample: the finite original values. A single number, such as a
    temperature, is only multiplied."""
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
