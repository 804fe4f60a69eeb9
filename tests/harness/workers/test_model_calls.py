"""What counts as an output."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.decorators import mark_static_address

from harness.workers import model_calls, modules


def test_what_torch_compile_notes_is_no_attribute_of_its_own() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    mark_static_address(parameter, guard=False)
    assert parameter.__dict__
    assert model_calls.flatten((parameter, torch.ones(2)))[0] is parameter


def test_an_output_with_an_attribute_beside_that_is_refused() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    mark_static_address(parameter, guard=False)
    parameter.later = lambda: None
    with pytest.raises(modules.LoadError, match=r"a Parameter with .* its own \(later\)"):
        model_calls.flatten(parameter)
