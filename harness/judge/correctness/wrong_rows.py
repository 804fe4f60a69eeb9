"""The first wrong rows of an output next to the inputs that belong to them, as text for debugging.
Only for inputs that are not used for judging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROWS = 2  # rows that are shown
SHOWN = 8  # neighbouring elements of a row that are shown
INPUTS = 4  # tensors of a call that are shown


def dump(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    wrong: torch.Tensor,
    inputs: Sequence[torch.Tensor],
) -> str:
    """Return several lines of text.

    Args:
        candidate: An output, of any shape.
        expected: The expected values, of the same shape.
        wrong: The mask of wrong elements, at least one.
        inputs: The tensors of the call, in their order; the first four are shown.
    """
    width, inputs = expected.shape[-1] if expected.dim() else 1, inputs[:INPUTS]
    rows = wrong.reshape(-1, width).any(dim=1).nonzero().flatten().tolist()
    lines = [
        f"{_kind(candidate)}: {len(rows)} of {expected.numel() // width} rows along the last axis "
        "have wrong elements"
    ]
    for row in rows[:ROWS]:
        lines += _row(row, width, candidate, expected, wrong, inputs)
    whole = [
        f"  input {number} {_kind(t)}: no such row; {_range(t)}"
        for number, t in enumerate(inputs)
        if not _belongs(t, expected)
    ]
    return "\n".join([*lines, *(["the other inputs:", *whole] if whole else [])])


def _row(
    row: int,
    width: int,
    candidate: torch.Tensor,
    expected: torch.Tensor,
    wrong: torch.Tensor,
    inputs: Sequence[torch.Tensor],
) -> list[str]:
    bad = wrong.reshape(-1, width)[row].nonzero().flatten().tolist()
    start = max(0, min(bad[0], width - SHOWN))
    place = _index(row, tuple(expected.shape[:-1]))
    lines = [
        f"row {list(place)}, elements {start} to {min(start + SHOWN, width) - 1} of {width} "
        f"({len(bad)} wrong, the first is {bad[0]}):",
        f"  expected {_numbers(expected.reshape(-1, width)[row], start)}",
        f"  computed {_numbers(candidate.reshape(-1, width)[row], start)}",
    ]
    for number, tensor in enumerate(inputs):
        if not _belongs(tensor, expected):
            continue
        # of an input with other axes after those of the row, the elements at the row
        values = tensor[place].reshape(-1)
        first = start if len(values) == width else 0
        lines.append(f"  input {number} {_kind(tensor)} {_numbers(values, first)}")
    return lines


def _belongs(tensor: torch.Tensor, output: torch.Tensor) -> bool:
    """Return whether an input starts with the output's axes except the last."""
    leading = output.shape[:-1]
    return bool(tensor.dim()) and bool(leading) and tensor.shape[: len(leading)] == leading


def _index(row: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        index.insert(0, row % extent)
        row //= extent
    return tuple(index)


def _numbers(row: torch.Tensor, start: int) -> str:
    part = row[start : start + SHOWN].tolist()
    more = " ..." if start + SHOWN < len(row) else ""
    return " ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in part) + more


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _range(tensor: torch.Tensor) -> str:
    if not tensor.numel() or tensor.is_complex():
        return "its values are not summarised"
    values = tensor.double()
    return f"from {values.min().item():.6g} to {values.max().item():.6g}"
