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
