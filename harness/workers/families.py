"""Input families: variations of what get_inputs() gives, within the range that the task's own inputs allow.

Floating tensors are scaled, shifted, spiked and partly zeroed; integers keep their seen range and are permuted or
duplicated, because they may be indices. A family counts only if the reference stays finite under it (the judge decides).
"""

from __future__ import annotations

from typing import Any

FAMILIES = ("dense", "scaled", "shifted", "spike", "zeros")


def vary(inputs: list[Any], family: str, seed: int) -> list[Any]:
    """A new list; tensors of the original are not changed. `dense` returns the inputs as they are."""
    import torch

    if family == "dense":
        return inputs
    generator = torch.Generator().manual_seed(seed)
    return [_vary(v, family, generator) if hasattr(v, "data_ptr") and v.numel() else v for v in inputs]


def _vary(tensor: Any, family: str, generator: Any) -> Any:
    import torch

    if not tensor.is_floating_point():
        return tensor if tensor.dtype == torch.bool else _permuted(tensor, generator, duplicate=family == "zeros")
    draw = torch.rand(3, generator=generator).tolist()
    out = tensor.clone()
    flat = out.view(-1) if out.is_contiguous() else out
    if family == "scaled":
        out.mul_(10.0 ** (4 * draw[0] - 2))
    elif family == "shifted":
        out.add_((draw[0] * 8 - 4) * float(tensor.float().std(correction=0)))
    elif family == "spike" and out.is_contiguous():
        flat[int(draw[0] * flat.numel()) % flat.numel()] += (
            100 * (1 if draw[1] < 0.5 else -1) * (float(tensor.float().abs().max()) or 1)
        )
    elif family == "zeros" and out.is_contiguous():
        start = int(draw[0] * flat.numel())
        flat[start : start + max(1, flat.numel() // 8)] = 0
    return out


def _permuted(tensor: Any, generator: Any, *, duplicate: bool) -> Any:
    """Values of the tensor in another order; a sorted tensor stays sorted, because it may be a table."""
    import torch

    flat = tensor.reshape(-1)
    ascending = flat.numel() > 1 and bool((flat[1:] >= flat[:-1]).all())
    if ascending:
        return tensor
    count = flat.numel()
    order = torch.randint(count, (count,), generator=generator) if duplicate else torch.randperm(count, generator=generator)
    return flat[order].reshape(tensor.shape)
