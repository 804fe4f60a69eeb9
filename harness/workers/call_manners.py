"""Ways to call a model as programs do, in which who is right otherwise may be wrong."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..wire.nesting import replace_tensors, tensors_of
from . import input_places, modules

if TYPE_CHECKING:
    from .prepared_model import PreparedModel

Call = Callable[[Any], list[Any]]
LATE_CYCLES = 2_000_000  # of a device's clock, about a millisecond


def wrap(model: PreparedModel, manner: str) -> Call:
    """Return a model's call in one of these manners: "in_place", on inputs that take the places of
    earlier ones (see input_places); "in_a_stream", "in_a_thread", "in_a_context" and "in_eval", see
    below; "" as it is."""
    if manner == "in_place":
        return input_places.reuse(model.call)
    if manner == "in_eval":
        return _in_eval(model.call, model.model)
    if manner in ("in_a_thread", "in_a_context"):
        return _in_a_thread(model.call, copied=manner == "in_a_context")
    return _in_a_stream(model.call) if manner == "in_a_stream" else model.call


def _in_eval(call: Call, model: Any) -> Call:
    """Return a call of a module that its owner has put into evaluation mode."""

    def evaluated(inputs: Any) -> list[Any]:
        with modules.in_evaluation(model):
            # leaving the mode may change what a result shares memory with
            return [output.detach().clone() for output in call(inputs)]

    return evaluated


def _in_a_thread(call: Call, *, copied: bool) -> Call:
    """Return a call in a thread of its own, which has what a new thread of a program has. copied:
    and the values of its caller's context variables, as asyncio.to_thread hands them on."""
    import torch

    def elsewhere(inputs: Any) -> list[Any]:
        records = torch.is_grad_enabled()

        def run() -> list[Any]:
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()  # native launches need a context of this thread
            with torch.set_grad_enabled(records):
                return call(inputs)

        with ThreadPoolExecutor(1) as pool:
            if copied:
                return pool.submit(contextvars.copy_context().run, run).result()
            return pool.submit(run).result()

    return elsewhere


def _in_a_stream(call: Call) -> Call:
    """Return a call that is made in a stream of its own and in the device's default one in turn.
    Its inputs get their values there late, and its outputs are copied there as soon as it has
    returned: who works in another stream that is not joined with the caller's reads too early or
    writes too late."""
    import torch

    sleep: Callable[[int], None] = torch.cuda._sleep
    streams = itertools.cycle((torch.cuda.Stream(), torch.cuda.default_stream()))  # type: ignore[no-untyped-call]
    kept: list[Any] = []  # until the device is done: the allocator does not know who uses them

    def late(inputs: Any) -> list[Any]:
        originals = tensors_of(inputs)
        values = [input_places.flat(each) for each in originals]  # once, where it is expanded
        places = [value.new_zeros(value.shape) for value in values]
        tensors = [
            place.as_strided(each.shape, each.stride())
            for place, each in zip(places, originals, strict=True)
        ]
        kept.append(places)
        torch.cuda.synchronize()
        with torch.cuda.stream(next(streams)):
            sleep(LATE_CYCLES)
            for place, value in zip(places, values, strict=True):
                place.copy_(value)
            return [output.detach().clone() for output in call(replace_tensors(inputs, tensors))]

    return late
