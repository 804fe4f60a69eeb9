"""Ways to call a model as programs do, in which who is right otherwise may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.nesting import replace_tensors, tensors_of
from . import input_places

Call = Callable[[Any], list[Any]]
LATE_CYCLES = 2_000_000  # of a device's clock, about a millisecond


def wrap(call: Call, manner: str) -> Call:
    """Return the call in one of these manners: "in_place", on inputs that take the places of
    earlier ones (see input_places); "in_a_stream", see below; "" as it is."""
    if manner == "in_place":
        return input_places.reuse(call)
    return _in_a_stream(call) if manner == "in_a_stream" else call


def _in_a_stream(call: Call) -> Call:
    """Return a call in a stream of its own, not the device's default one. Its inputs get their
    values there late, and its outputs are copied there as soon as it has returned: who works in
    another stream that is not joined with the caller's reads too early or writes too late."""
    import torch

    sleep: Callable[[int], None] = torch.cuda._sleep
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    kept: list[Any] = []  # until the device is done: the allocator does not know who uses them

    def late(inputs: Any) -> list[Any]:
        originals = tensors_of(inputs)
        places = [input_places.like(each) for each in originals]
        kept.append(places)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            sleep(LATE_CYCLES)
            for place, value in zip(places, originals, strict=True):
                place.copy_(value)
            return [output.detach().clone() for output in call(replace_tensors(inputs, places))]

    return late
