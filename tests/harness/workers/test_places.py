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
        seen.append((id(x), x.data_ptr(), x._version, float(x[0, 0])))
        return [x]

    one, other = torch.full((64, 64), 1.0), torch.full((64, 64), 2.0)
    met = 0
    for _ in range(20):
        renewed = input_places.reuse(call)
        outputs = [renewed([x])[0] for x in (one, other, one)]
        assert [float(output[0, 0]) for output in outputs] == [1, 2, 1]  # not changed later
        first, second, third = seen[-3:]
        met += first[1] == second[1]
        assert second[:2] == third[:2]
        assert [first[2:], second[2:], third[2:]] == [(0, 1.0), (0, 2.0), (1, 1.0)]
    assert met > 5
    assert float(one[0, 0]) == 1


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
