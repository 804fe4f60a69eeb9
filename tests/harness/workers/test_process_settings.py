"""Settings that calls leave in their process."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.workers import process_settings


def changed(call: Callable[[], object]) -> list[str]:
    earlier = process_settings.modes()
    errors, autocast = np.geterr(), torch.is_autocast_enabled("cpu")
    try:
        return process_settings.changed_by(call, earlier)
    finally:
        np.seterr(**errors)
        torch.set_autocast_enabled("cpu", autocast)
        torch.set_grad_enabled(True)
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.set_flags(True)
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: torch.ones(3).sum(), []),
        (lambda: torch.manual_seed(7), ["torch's generator of random numbers"]),
        (lambda: random.seed(7), ["Python's generator of random numbers"]),
        (lambda: np.random.seed(7), ["NumPy's generator of random numbers"]),
        (lambda: np.seterr(all="raise"), ["how NumPy treats errors"]),
        (lambda: torch.set_grad_enabled(False), ["whether gradients are recorded"]),
        (lambda: torch.set_autocast_enabled("cpu", True), ["whether torch.autocast is on"]),
        (lambda: torch.backends.mkldnn.set_flags(False), ["whether torch uses oneDNN"]),
        (
            lambda: torch.set_float32_matmul_precision("high"),
            ["the precision of matrix products"],
        ),
    ],
)
def test_what_a_call_changes_is_named(call: Callable[[], object], names: list[str]) -> None:
    assert changed(call) == names


def test_what_an_earlier_call_left_counts() -> None:
    earlier = process_settings.modes()
    torch.set_float32_matmul_precision("high")
    try:
        assert process_settings.changed_by(lambda: None, earlier) == [
            "the precision of matrix products"
        ]
    finally:
        torch.set_float32_matmul_precision("highest")
