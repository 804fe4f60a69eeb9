"""What a recorder does not see of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from harness.workers import operators


@pytest.mark.parametrize(
    "read", [torch.Tensor.numpy, torch.Tensor.tolist, numpy.asarray, numpy.from_dlpack]
)
def test_values_that_leave_the_framework_are_noted(read: Callable[[Any], Any]) -> None:
    name = getattr(read, "__name__", "")
    with operators.Recorder() as recorder, operators.ExportRecorder() as exports:
        value = torch.arange(3)
        getattr(value, name)() if hasattr(value, name) else read(value)
    assert exports.exported
    assert not recorder.looks


def test_what_stays_inside_is_not_and_tensors_are_left_as_they_were() -> None:
    usual = torch.Tensor.numpy
    with operators.ExportRecorder() as exports:
        torch.tanh(torch.arange(3.0))
    assert not exports.exported
    assert torch.Tensor.numpy is usual
    assert "numpy" not in vars(torch.Tensor)


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("aten.view.default", True),
        ("aten.unsqueeze_.default", True),
        ("view", True),
        ("profiler._record_function_enter_new.default", True),
        # what a candidate defines may be called like one that is free
        ("mine.view.default", False),
        ("higher_order.view", False),
        ("aten.mm.default", False),
    ],
)
def test_only_the_frameworks_own_operators_are_free(name: str, free: bool) -> None:
    assert operators.is_free(name) == free


TABLE = torch.randn(1 << 14)  # 64 KiB


@pytest.mark.parametrize(
    ("call", "largest", "filled"),
    [
        (lambda: torch.zeros(1 << 15).add_(1).view(2, -1).t(), 1 << 17, 1 << 17),
        (lambda: [torch.zeros(1 << 14) for _ in range(3)], 1 << 16, 3 << 16),
        (lambda: torch.empty(1 << 14).zero_(), 1 << 16, 1 << 16),
        (lambda: torch.bincount(torch.arange(4), minlength=1 << 13), 1 << 16, 1 << 16),
        (lambda: TABLE.view(128, 128).t()[:4].expand(2, 4, 128), 0, 0),
        (lambda: TABLE[:16] * 2, 64, 0),
    ],
)
def test_new_memory_counts_and_views_do_not(
    call: Callable[[], Any], largest: int, filled: int
) -> None:
    with operators.Recorder() as recorder:
        call()
    for found, expected in ((recorder.largest_bytes, largest), (recorder.filled_bytes, filled)):
        assert expected <= found <= expected + 64
