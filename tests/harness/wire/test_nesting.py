"""Structures with tensors in them: taken apart and put together, also over the wire."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
import torch

from harness.wire import buffers, memory_files
from harness.wire.layouts import PLAIN_BYTES, plan_layout
from harness.wire.nesting import map_tensors, replace_tensors, tensors_of


class Batch(NamedTuple):
    logits: torch.Tensor
    target: Any


def drawn() -> list[Any]:
    return [
        torch.tensor(0.0),
        {"b": torch.tensor(1.0), "a": (torch.tensor(2.0), None, "word")},
        [Batch(torch.tensor(3.0), [torch.tensor(4.0), 7]), torch.tensor(5.0)],
        {},
        2.5,
        {0: "zero", 1: "one", "1": True, 0.5: 1, None: 0},
    ]


def test_tensors_keep_their_order() -> None:
    assert [float(t) for t in tensors_of(drawn())] == [0, 1, 2, 3, 4, 5]


def test_a_change_keeps_the_structure_and_the_original() -> None:
    value = drawn()
    found = map_tensors(value, lambda t: t + 10)
    assert [float(t) for t in tensors_of(found)] == [10, 11, 12, 13, 14, 15]
    assert [float(t) for t in tensors_of(value)] == [0, 1, 2, 3, 4, 5]
    assert list(found[1]) == ["b", "a"]
    assert type(found[1]["a"]) is tuple
    assert found[1]["a"][1:] == (None, "word")
    assert type(found[2]) is list
    assert type(found[2][0]) is Batch
    assert found[2][0].target[1] == 7
    assert found[3:] == value[3:]
    assert found[1] is not value[1]
    assert found[2][0].target is not value[2][0].target


def test_tensors_are_put_where_others_were() -> None:
    value = drawn()
    others = [torch.tensor(float(n)) for n in range(20, 26)]
    assert all(
        a is b for a, b in zip(tensors_of(replace_tensors(value, others)), others, strict=True)
    )


def test_a_structure_crosses_as_it_is() -> None:
    value = drawn()
    layout = plan_layout(value)
    fd = memory_files.create("nested", int(layout["bytes"]))
    buffers.write(fd, layout, value)
    found = buffers.read(fd, layout)
    assert [float(t) for t in tensors_of(found)] == [0, 1, 2, 3, 4, 5]
    assert float(found[2][0].logits) == 3
    assert found[2][0]._fields == ("logits", "target")
    assert isinstance(found[2][0], tuple)
    assert plan_layout(found) == layout
    assert repr(found[3:]) == repr(value[3:])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([{(0, 1): 2}], "value[0] has a key that is a tuple"),
        ([torch.zeros(2), "a" * PLAIN_BYTES], f"{PLAIN_BYTES} are accepted"),
        ([[0] * 10_000], f"{PLAIN_BYTES} are accepted"),
    ],
    ids=["key", "text", "numbers"],
)
def test_what_cannot_cross_is_named(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        plan_layout(value)


@pytest.mark.parametrize("field", ["class", "__init__", "a b", "1"])
def test_fields_that_are_no_names_do_no_harm(field: str) -> None:
    layout = {"leaves": [{"value": 3}], "tree": {"named": {field: 0}}}
    assert tuple(buffers.build(layout, None)) == (3,)
