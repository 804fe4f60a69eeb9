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


def test_nor_is_what_a_buffer_notes() -> None:
    buffer = torch.nn.Buffer(torch.ones(3), persistent=False)
    assert buffer.__dict__
    assert model_calls.flatten(buffer) == [buffer]


@pytest.mark.parametrize("name", ["persistent", "_is_buffer", "_dynamo_static_input_type"])
def test_such_a_note_holds_a_plain_value(name: str) -> None:
    buffer = torch.nn.Buffer(torch.ones(3))
    setattr(buffer, name, lambda: None)
    with pytest.raises(modules.LoadError, match=rf"a Tensor with .* its own \({name}\)"):
        model_calls.flatten(buffer)


def test_an_output_with_an_attribute_beside_that_is_refused() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    mark_static_address(parameter, guard=False)
    parameter.later = lambda: None
    with pytest.raises(modules.LoadError, match=r"a Parameter with .* its own \(later\)"):
        model_calls.flatten(parameter)
