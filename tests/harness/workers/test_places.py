"""New objects in the places of those that are gone, for inputs and for models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from harness.workers import input_places, modules, object_places


def test_inputs_come_in_new_tensors_in_one_place_and_in_the_same_ones() -> None:
    seen: list[tuple[int, int, int, float]] = []

    def call(inputs: Any) -> list[Any]:
        (x,) = inputs
        assert x.untyped_storage().resizable()
        seen.append((id(x), x.data_ptr(), x._version, float(x[0, 0])))
        return [x]

    one, other = torch.full((64, 64), 1.0), torch.full((64, 64), 2.0)
    renewed = input_places.reuse(call)
    outputs = [renewed([x])[0] for x in (one, other, one)]
    assert [float(output[0, 0]) for output in outputs] == [1, 2, 1]  # no later call changes them
    assert seen[0][1] == seen[1][1]
    assert seen[1][:2] == seen[2][:2]
    assert [(version, value) for *_, version, value in seen] == [(0, 1), (0, 2), (1, 1)]
    assert float(one[0, 0]) == 1


def test_inputs_that_somebody_holds_keep_their_place() -> None:
    held: list[Any] = []

    def call(inputs: Any) -> list[Any]:
        held.append(inputs[0])
        return [inputs[0] + 0]

    renewed = input_places.reuse(call)
    for value in (1.0, 2.0, 3.0):
        renewed([torch.full((8, 8), value)])
    assert held[0].data_ptr() != held[1].data_ptr()
    assert float(held[0][0, 0]) == 1
    assert held[1] is held[2]


def test_copied_inputs_keep_shapes_strides_and_overlaps() -> None:
    tensors = [
        torch.randn(4, 6).t(),
        torch.randn(1, 5).expand(3, 5),
        torch.randn(0, 3),
        torch.tensor(2),
        torch.randn(9)[1::2],
    ]
    renewed = input_places.reuse(lambda inputs: [*inputs[0], inputs[1]["b"]])
    for _ in range(3):
        outputs = renewed([tensors[:-1], {"b": tensors[-1], "c": 1}])
        assert all(torch.equal(a, b) for a, b in zip(tensors, outputs, strict=True))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))


class Finishing(type):
    """A metaclass with a step after the constructor."""

    def __call__(cls, *args: Any) -> Any:
        model = super().__call__(*args)
        model.finished = True
        return model


class FinishedLayer(Layer, metaclass=Finishing):
    pass


@pytest.mark.parametrize("kind", [Layer, FinishedLayer])
def test_a_model_takes_the_place_of_one_that_is_gone(kind: type[Layer]) -> None:
    module = modules.load("", "places", "places.py")
    module.ModelNew = kind  # type: ignore[attr-defined]
    model: Any = kind(8)
    met = 0
    for _ in range(20):
        place, places = id(model), object_places.Places(model)
        del model
        model = modules.construct(module, modules.CANDIDATE, [8], 0, places.take())
        del places
        # without the model in the assertion, which would hold it
        found = (tuple(model.weight.shape), hasattr(model, "finished"))
        assert found == ((8,), kind is FinishedLayer)
        met += id(model) == place
    assert met > 5


def test_a_function_leaves_no_place() -> None:
    def kernel() -> None: ...

    assert object_places.Places(kernel).take() == []
