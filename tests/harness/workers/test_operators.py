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
