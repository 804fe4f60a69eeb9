"""Calls one by one: the judge supplies the inputs of a call only when it holds the outputs of the
previous one.

Orders are written to a gate, memory that both sides share. Inputs and outputs travel in one of two
ways. Short calls receive their inputs as one packet and answer with one: a packet arrives at once
and complete, and is a copy. For other calls, inputs appear in memory that the worker can only read,
an event wakes the sleeping worker, and it reports where its outputs are, so that the judge reads
them in place.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Any

from ..wire import buffers, memory_files
from ..wire.layouts import PLAIN_BYTES, Layout, plain_values, with_plain_values
from .call_form import CallForm, Forms, form_error, spread_bytes
from .gate_links import Link
from .modules import LoadError

# make a call; make an empty call; release outputs except those named; end
CALL, NOTHING, FORGET, END = 1, 2, 4, 5
# indices of 64-bit words; the worker writes the last two
_ORDER, _NUMBER, _VALUES, _DONE, _SHARE = 0, 1, 2, 8, 9
# the first word of the outputs, and words per output: address, bytes, dimensions, strides in
# elements
_OUTPUTS, _WORDS = 16, 16
# low bits of the number that goes with FORGET: one for each call whose outputs are kept; the bits
# above are the index among the outputs kept before that they replace
CALL_BITS = 32
MOST_DIMENSIONS = _WORDS - 3
TEXT_BYTES = PLAIN_BYTES  # the most bytes of inputs that are not tensors, as JSON
# the most bytes from an output's first to last element, as a multiple of its own bytes; outputs
# that are spread wider are copied
MOST_SPREAD = 4
PACKET_BYTES = 64 << 10  # the most bytes of inputs, and of outputs, that are sent in a packet


def gate_bytes(outputs: int) -> int:
    """Return the size of the gate's memory."""
    return 8 * (_OUTPUTS + _WORDS * outputs) + TEXT_BYTES


def plain_text(layout: Layout, worker_layout: Layout) -> bytes:
    """Return a call's inputs besides tensors, as JSON: nothing where they equal those in the
    worker's layout, and only the values where just these differ. Texts are compared, since 1 ==
    True and 0.0 == -0.0."""
    if layout is worker_layout:
        return b""
    (form, values), (worker_form, worker_values) = (
        _form_and_values(layout),
        _form_and_values(worker_layout),
    )
    if form != worker_form:
        return json.dumps(plain_values(layout)).encode()
    return b"" if values == worker_values else values.encode()


def _form_and_values(layout: Layout) -> tuple[str, str]:
    leaves = layout["leaves"]
    return (
        json.dumps([layout["tree"], ["value" in leaf for leaf in leaves]]),
        json.dumps([leaf["value"] for leaf in leaves if "value" in leaf]),
    )


class Gate:
    """One side's view of the gate. Both sides can write everything; the worst that a wrong word
    does is to name inputs or outputs that do not exist."""

    def __init__(self, fd: int, outputs: int) -> None:
        self._memory = memoryview(memory_files.map_shared(fd, gate_bytes(outputs)))
        self._words = self._memory[: 8 * (_OUTPUTS + _WORDS * outputs)].cast("Q")
        self._text = self._memory[8 * (_OUTPUTS + _WORDS * outputs) :]

    # ---- the judge's side

    def order(self, order: int, number: int, plain: bytes) -> None:
        """Write the next order and the number of its model or call. plain: see plain_text."""
        self._text[: len(plain)] = plain
        self._words[_ORDER], self._words[_NUMBER], self._words[_VALUES] = order, number, len(plain)

    @property
    def done(self) -> int:
        """The number of orders completed."""
        return self._words[_DONE]

    @property
    def share_ns(self) -> int:
        """The time that the last order NOTHING took inside the worker."""
        return self._words[_SHARE]

    def output(self, number: int) -> tuple[int, int, list[int] | None]:
        """Return for an output of the last call its address, the bytes from its first to its last
        element and, unless it is contiguous, its strides in elements."""
        address, size, dimensions, *strides = self._words[
            _OUTPUTS + _WORDS * number : _OUTPUTS + _WORDS * (number + 1)
        ]
        return address, size, strides[:dimensions] if 0 < dimensions <= MOST_DIMENSIONS else None

    # ---- the worker's side

    def serve(self, link: Link, models: list[Callable[[Any], list[Any]]], task: CallForm) -> None:
        """Execute orders until END. models: by number."""
        words, layout, outputs = self._words, task.layout, task.outputs
        recent, retained = list[Any](), list[Any]()  # outputs of calls, with copies of them
        usual, nothing = buffers.build(layout, link.memory), task.nothing()
        gc.disable()
        try:
            while True:
                link.wait()
                began = time.perf_counter_ns()
                order = words[_ORDER]
                inputs = self._read_plain(layout, link.memory) if words[_VALUES] else usual
                if order == CALL:
                    results = models[words[_NUMBER]](inputs)
                    recent.append((results, self._show(results, outputs, link)))
                elif order == NOTHING:
                    self._show(nothing(inputs), outputs, link)
                    words[_SHARE] = time.perf_counter_ns() - began
                elif order == FORGET:
                    place, calls = divmod(words[_NUMBER], 1 << CALL_BITS)
                    chosen = [each for call, each in enumerate(recent) if calls >> call & 1]
                    retained[place : place + len(chosen)] = chosen
                    recent.clear()
                words[_DONE] += 1
                link.answer(whole=order in (CALL, NOTHING))
                if order == END:
                    return
        finally:
            gc.enable()

    def _read_plain(self, layout: Layout, memory: Any) -> Any:
        """Build the inputs with the values that are in the gate besides tensors."""
        message = json.loads(bytes(self._text[: self._words[_VALUES]]))
        if isinstance(message, dict):
            return buffers.build(with_plain_values(layout, message), memory)
        values = iter(message)
        leaves = [{"value": next(values)} if "value" in leaf else leaf for leaf in layout["leaves"]]
        return buffers.build({**layout, "leaves": leaves}, memory)

    def _show(self, results: list[Any], outputs: Forms, link: Link) -> list[Any]:
        """Write the places of the outputs to the gate. Returns the copies that had to be made."""
        if len(results) != len(outputs):
            raise LoadError("structure", f"{len(results)} outputs instead of {len(outputs)}")
        words, start, copies = self._words, _OUTPUTS, []
        for tensor, (shape, dtype, size), part in zip(results, outputs, link.parts, strict=True):
            if tensor.shape != shape or tensor.dtype != dtype:
                raise form_error(tensor, shape, dtype)
            words[start + 2] = 0
            if link.holds(tensor):
                tensor = tensor.clone()
                copies.append(tensor)
            if not tensor.is_contiguous():
                tensor, size = self._spread(start, tensor, copies)
            words[start] = part.address = tensor.data_ptr()
            words[start + 1] = part.size = size
            start += _WORDS
        return copies

    def _spread(self, start: int, tensor: Any, copies: list[Any]) -> tuple[Any, int]:
        """Return an output with gaps and the bytes that it spans; a copy where they are too
        many."""
        size = spread_bytes(tensor.shape, tensor.stride(), tensor.itemsize)
        if size > MOST_SPREAD * tensor.nbytes or tensor.dim() > MOST_DIMENSIONS:
            tensor = tensor.contiguous()
            copies.append(tensor)
            return tensor, tensor.nbytes
        self._words[start + 2] = tensor.dim()
        for axis, step in enumerate(tensor.stride()):
            self._words[start + 3 + axis] = step
        return tensor, size
