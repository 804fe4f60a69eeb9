"""What calls change in a module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from harness.workers import modules
from harness.workers.module_watch import ModuleWatch


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(2, 2)
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("unsaved", torch.zeros(2), persistent=False)
        self.table: Any = None
        self.part.notes = [1, {"a": torch.zeros(2)}, SimpleNamespace(count=0)]  # type: ignore[assignment]


def test_nothing_is_reported_where_nothing_has_changed() -> None:
    layer = Layer()
    watch = ModuleWatch(layer)
    layer(torch.zeros(2)) if hasattr(layer, "run") else layer.part(torch.zeros(2))
    layer.part.weight.grad = torch.ones(2, 2)
    assert (watch.updated(), watch.reshaped(), watch.changed_attributes()) == ([], [], [])


def test_parameters_and_buffers_in_place_or_anew() -> None:
    layer = Layer()
    watch = ModuleWatch(layer)
    with torch.no_grad():
        layer.part.bias.add_(1)
    layer.kept = layer.kept + 1
    layer.get_buffer("unsaved").numpy()[0] = 1  # raises no version counter
    assert watch.updated() == ["part.bias", "kept", "unsaved"]
    layer.part.weight.data = layer.part.weight.data * 2  # nor does this
    assert watch.updated() == ["part.weight", "part.bias", "kept", "unsaved"]
    layer.kept = torch.zeros(3)
    layer.register_buffer("other", torch.zeros(1))
    assert watch.reshaped() == ["kept", "other"]


def test_plain_attributes_also_inside_others() -> None:
    layer = Layer()
    watch = ModuleWatch(layer)
    layer.part.notes[1]["a"][0] = 1  # type: ignore[index,operator]
    assert watch.changed_attributes() == ["part.notes"]
    watch = ModuleWatch(layer)
    layer.part.notes[2].count += 1  # type: ignore[index,operator]
    layer.table = torch.ones(1)
    assert watch.changed_attributes() == ["table", "part.notes"]
    watch = ModuleWatch(layer)
    layer.table = layer.table.clone()  # equal values
    assert watch.changed_attributes() == []


def test_a_function_has_nothing_that_could_change() -> None:
    watch = ModuleWatch(torch.tanh)
    assert (watch.updated(), watch.changed_attributes()) == ([], [])


def test_a_buffer_belongs_to_the_state_once_it_is_persistent() -> None:
    layer = Layer()
    assert list(modules.state(layer)) == ["part.weight", "part.bias", "kept"]
    assert list(modules.state(layer, ["unsaved"])) == [*modules.state(layer), "unsaved"]
    modules.make_persistent(layer, ["unsaved"])
    assert list(modules.state(layer)) == ["part.weight", "part.bias", "kept", "unsaved"]
