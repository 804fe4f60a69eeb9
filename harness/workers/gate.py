"""Calls one by one: the judge hands over the inputs of a call when it holds the outputs of the one
before.

Orders stand in a gate that both sides see. There are two ways for inputs and outputs. Short calls
get them as one packet and answer with one: a packet is there at once and whole, and is a copy when
it is sent. For others inputs appear in memory that the worker can only read, an event wakes the
worker, which sleeps in between, and it says where its outputs lie, for the judge to read them
there.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import buffers, memory_files
from ..wire.layouts import PLAIN_BYTES, Layout, plain_values, with_plain_values
from ..wire.nesting import tensors_of
from . import model_calls, modules

# a call; one that does nothing; give outputs up, but for those that are named; the last
CALL, NOTHING, FORGET, END = 1, 2, 4, 5
# 64-bit words; the worker writes the last two
_ORDER, _NUMBER, _VALUES, _DONE, _SHARE = 0, 1, 2, 8, 9
# where outputs are described, and words for each: address, bytes, dimensions, strides in elements
_OUTPUTS, _WORDS = 16, 16
# of the number that goes with FORGET: calls whose outputs are held on to, a bit for each, and above
# them the place among those held before that they take
CALL_BITS = 32
MOST_DIMENSIONS = _WORDS - 3
TEXT_BYTES = PLAIN_BYTES  # of inputs that are no tensors, as JSON
# times the bytes of an output that lie between its first and last element; others are copied
MOST_SPREAD = 4
PACKET_BYTES = 64 << 10  # of inputs, and of outputs, that fit into a packet
DONT_WAIT, NO_SIGNAL = 0x40, 0x4000  # MSG_DONTWAIT, MSG_NOSIGNAL of Linux

Outputs = list[tuple[Any, Any, int]]  # of each the shape and dtype that it must have, and its bytes

_libc = ctypes.CDLL(None, use_errno=True)


class Part(ctypes.Structure):
    """struct iovec of sys/uio.h."""

    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Message(ctypes.Structure):
    """struct msghdr of sys/socket.h."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_size", ctypes.c_uint), ("parts", ctypes.POINTER(Part)),
        ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )  # fmt: skip

    @classmethod
    def of(cls, count: int) -> Message:
        """With so many parts, still empty."""
        return cls(parts=(Part * max(1, count))(), count=count)


def plain_text(layout: Layout, usual: Layout) -> bytes:
    """What a call's inputs are besides its tensors, as JSON: nothing where that is as in the layout
    that the worker has, values alone where these differ. Texts are compared, since 1 == True and
    0.0 == -0.0."""
    if layout is usual:
        return b""
    (form, values), (usual_form, usual_values) = _parted(layout), _parted(usual)
    if form != usual_form:
        return json.dumps(plain_values(layout)).encode()
    return b"" if values == usual_values else values.encode()


def _parted(layout: Layout) -> tuple[str, str]:
    leaves = layout["leaves"]
    return (
        json.dumps([layout["tree"], ["value" in leaf for leaf in leaves]]),
        json.dumps([leaf["value"] for leaf in leaves if "value" in leaf]),
    )


def gate_bytes(outputs: int) -> int:
    """Of the gate's memory."""
    return 8 * (_OUTPUTS + _WORDS * outputs) + TEXT_BYTES


class Gate:
    """One side's view. Both can write all of it: a wrong word gives the worker inputs that are not
    there, or the judge outputs that are not."""

    def __init__(self, fd: int, outputs: int) -> None:
        self._memory = memoryview(memory_files.map_shared(fd, gate_bytes(outputs)))
        self._words = self._memory[: 8 * (_OUTPUTS + _WORDS * outputs)].cast("Q")
        self._text = self._memory[8 * (_OUTPUTS + _WORDS * outputs) :]

    # ---- the judge's side

    def order(self, order: int, number: int, plain: bytes) -> None:
        """What to do next, with which model or call. plain: see plain_text."""
        self._text[: len(plain)] = plain
        self._words[_ORDER], self._words[_NUMBER], self._words[_VALUES] = order, number, len(plain)

    @property
    def done(self) -> int:
        """Orders that were followed."""
        return self._words[_DONE]

    @property
    def share_ns(self) -> int:
        """Of the last order NOTHING: what passed inside the worker."""
        return self._words[_SHARE]

    def output(self, number: int) -> tuple[int, int, list[int] | None]:
        """Of an output of the last call: its address, the bytes from its first to its last element
        and, unless it is contiguous, its strides in elements."""
        address, size, dimensions, *strides = self._words[
            _OUTPUTS + _WORDS * number : _OUTPUTS + _WORDS * (number + 1)
        ]
        return address, size, strides[:dimensions] if 0 < dimensions <= MOST_DIMENSIONS else None

    # ---- the worker's side

    def serve(self, link: Link, models: list[Callable[[Any], list[Any]]], task: CallForm) -> None:
        """Follow orders until the last. models: by number."""
        words, layout, outputs = self._words, task.layout, task.outputs
        held, longer = list[Any](), list[Any]()
        plain, nothing = buffers.build(layout, link.memory), task.nothing()
        gc.disable()
        try:
            while True:
                link.wait()
                began = time.perf_counter_ns()
                order = words[_ORDER]
                given = self._other(layout, link.memory) if words[_VALUES] else plain
                if order == CALL:
                    found = models[words[_NUMBER]](given)
                    held.append((found, self._show(found, outputs, link)))
                elif order == NOTHING:
                    self._show(nothing(given), outputs, link)
                    words[_SHARE] = time.perf_counter_ns() - began
                elif order == FORGET:
                    place, calls = divmod(words[_NUMBER], 1 << CALL_BITS)
                    some = [each for call, each in enumerate(held) if calls >> call & 1]
                    longer[place : place + len(some)] = some
                    held.clear()
                words[_DONE] += 1
                link.answer(whole=order in (CALL, NOTHING))
                if order == END:
                    return
        finally:
            gc.enable()

    def _other(self, layout: Layout, memory: Any) -> Any:
        """Inputs of which what is no tensor was given."""
        given = json.loads(bytes(self._text[: self._words[_VALUES]]))
        if isinstance(given, dict):
            return buffers.build(with_plain_values(layout, given), memory)
        values = iter(given)
        leaves = [{"value": next(values)} if "value" in leaf else leaf for leaf in layout["leaves"]]
        return buffers.build({**layout, "leaves": leaves}, memory)

    def _show(self, found: list[Any], outputs: Outputs, link: Link) -> list[Any]:
        """Say where outputs lie. What lies there, where that is a copy."""
        if len(found) != len(outputs):
            raise modules.LoadError("structure", f"{len(found)} outputs instead of {len(outputs)}")
        words, start, copies = self._words, _OUTPUTS, []
        for tensor, (shape, dtype, size), part in zip(found, outputs, link.parts, strict=True):
            if tensor.shape != shape or tensor.dtype != dtype:
                raise misfit(tensor, shape, dtype)
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
        """An output with gaps, and the bytes that it takes; copied where they are many."""
        size = spread_bytes(tensor.shape, tensor.stride(), tensor.itemsize)
        if size > MOST_SPREAD * tensor.nbytes or tensor.dim() > MOST_DIMENSIONS:
            tensor = tensor.contiguous()
            copies.append(tensor)
            return tensor, tensor.nbytes
        self._words[start + 2] = tensor.dim()
        for axis, step in enumerate(tensor.stride()):
            self._words[start + 3 + axis] = step
        return tensor, size


class Link(ABC):
    """How a worker learns of an order, and answers. memory: where inputs are. parts: of the outputs
    that were shown."""

    def __init__(self, memory: Any, outputs: int) -> None:
        self.memory, self._out = memory, Message.of(outputs)
        self.parts = [self._out.parts[number] for number in range(outputs)]
        self._start = buffers.address(memory)
        self._end = self._start + len(memory)

    @abstractmethod
    def wait(self) -> None:
        """Until there is an order."""

    @abstractmethod
    def answer(self, *, whole: bool) -> None:
        """The order was followed. whole: outputs were shown."""

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies in the memory of the inputs, which change once the call is over."""
        return bool(self._start <= tensor.data_ptr() < self._end)


class Asleep(Link):
    """Woken by an event; inputs lie in memory that shows what the judge writes. The gate itself
    says that an order was followed."""

    def __init__(self, table: int, wake: int, outputs: int) -> None:
        super().__init__(memory_files.map_read_only(table), outputs)
        self._wake = wake

    def wait(self) -> None:
        os.read(self._wake, 8)

    def answer(self, *, whole: bool) -> None:
        """The judge looks at the gate."""


class Packets(Link):
    """Looks for a packet again and again, so that the core stays as it is."""

    def __init__(self, socket: int, layout: Layout, outputs: int) -> None:
        memory = bytearray(int(layout["bytes"]))
        super().__init__(memory, outputs)
        leaves = [leaf for leaf in layout["leaves"] if leaf.get("nbytes")]
        self._socket, self._in, self._short = socket, Message.of(len(leaves)), Message.of(1)
        for number, leaf in enumerate(leaves):
            self._in.parts[number] = Part(self._start + leaf["offset"], leaf["nbytes"])
        self._byte = ctypes.c_char(b"-")
        self._short.parts[0] = Part(ctypes.addressof(self._byte), 1)
        self._whole, self._said = ctypes.byref(self._out), ctypes.byref(self._short)

    def wait(self) -> None:
        receive, socket, message = _libc.recvmsg, self._socket, ctypes.byref(self._in)
        while receive(socket, message, DONT_WAIT) < 0:
            pass

    def answer(self, *, whole: bool) -> None:
        _libc.sendmsg(self._socket, self._whole if whole else self._said, NO_SIGNAL)


def expected(layout: Layout) -> Outputs:
    """Shape, dtype and bytes of each output."""
    import torch

    return [
        (torch.Size(leaf["shape"]), getattr(torch, leaf["dtype"]), leaf["nbytes"])
        for leaf in layout["leaves"]
    ]


def spread_bytes(shape: Any, strides: Any, item: int) -> int:
    """Bytes from the first element to the end of the last."""
    return int(
        item * (1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)))
    )


def misfit(tensor: Any, shape: Any, dtype: Any) -> modules.LoadError:
    """What is wrong with an output of another shape or dtype than the reference's."""
    if tensor.shape != shape:
        return modules.LoadError(
            "shape",
            f"an output has shape {tuple(tensor.shape)}, the reference's has {tuple(shape)}",
        )
    return modules.LoadError("dtype", f"an output is {tensor.dtype}, the reference's is {dtype}")


@dataclass(frozen=True)
class CallForm:
    """What calls are like. outputs: with gradients behind the results. results: how many outputs
    `forward` returns. upstream: numbers of those from which gradients flow back."""

    layout: Layout
    outputs: Outputs
    results: int
    upstream: Sequence[int] = ()

    def nothing(self) -> Callable[[Any], list[Any]]:
        """The smallest call that a candidate can be: a module that allocates its outputs and calls
        a native function, through what every call goes through. Code that replaces the loop above
        spares all of it."""
        import torch

        def made(some: Outputs) -> list[Any]:
            _libc.abs(0)
            return [torch.empty(shape, dtype=dtype) for shape, dtype, _ in some]

        results, gradients = self.outputs[: self.results], self.outputs[self.results :]
        tensors = [leaf for leaf in self.layout["leaves"] if "value" not in leaf]
        given = tensors[: len(tensors) - len(self.upstream)]
        nested = not all(isinstance(node, int) for node in self.layout["tree"]["list"])

        class Through(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, *_: Any) -> Any:
                found = made(results)
                context.mark_non_differentiable(
                    *(t for n, t in enumerate(found) if n not in self.upstream)
                )
                return tuple(found)

            @staticmethod
            def backward(context: Any, *_: Any) -> Any:
                found = iter(made(gradients))
                return tuple(next(found) if needed else None for needed in context.needs_input_grad)

        class Nothing(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                of_inputs = sum(_floating(leaf) for leaf in given)
                self.values = torch.nn.ParameterList(
                    torch.empty(shape, dtype=dtype) for shape, dtype, _ in gradients[of_inputs:]
                )

            def forward(self, *inputs: Any) -> Any:
                if not gradients:
                    return made(results)
                # autograd does not look for tensors inside
                some = tensors_of(inputs) if nested else inputs
                return Through.apply(*some, *self.values)  # type: ignore[no-untyped-call]

        return model_calls.forward(Nothing(), self.upstream)


def _floating(leaf: dict[str, Any]) -> bool:
    import torch

    return bool(getattr(torch, leaf["dtype"]).is_floating_point)
