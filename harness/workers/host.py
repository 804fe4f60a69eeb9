"""What every worker that runs a model does: answer commands, run bursts over given inputs, hand
outputs back as bytes.

Baseline and candidate run through exactly this code, so that its overhead is the same on both sides
of a comparison.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire import buffers, frames, memory_files
from ..wire.layouts import Layout
from ..wire.nesting import changed
from . import (
    compile_cache,
    gate,
    guarded_memory,
    guards,
    heap,
    memory_faults,
    modules,
    operators,
    placement,
    running,
)
from .device_commands import ShownHost

ERROR_KINDS = (
    "exception", "no_entry_point", "syntax_error", "constructor", "parameter_mismatch", "structure",
    "shape", "dtype", "out_of_memory", "native", "task", "compile", "unfit", "out_of_bounds",
    "input_mutation",
)  # fmt: skip


@dataclass
class Prepared:
    """A constructed model with everything a call needs. `targets`: the tensors that take the
    reference's state, by name."""

    call: Callable[[Any], list[Any]]
    outputs: Layout
    slots: mmap.mmap | None  # None where outputs are shown where they lie
    slot_bytes: int
    device: str = "cpu"
    targets: dict[str, Any] = field(default_factory=dict)
    # of an exported package: itself, with a kernel that does nothing
    without_kernel: Callable[..., Any] | None = None
    _views: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.call = in_layout(self.call, self.outputs)

    def views(self, count: int) -> list[list[Any]]:
        """The tensors of the first slots."""
        for number in range(len(self._views), count):
            self._views.append(buffers.tensors(self.outputs, self.slots, number * self.slot_bytes))
        return self._views[:count]


def forward(
    model: Callable[..., Any], upstream: Sequence[int] = (), form: str = ""
) -> Callable[[Any], list[Any]]:
    """inputs -> flat list of output tensors. upstream: numbers of outputs from which gradients flow
    back; the last inputs are the gradients with respect to these, one each, and the outputs are
    followed by the gradients of the floating inputs and the parameters. form: what forward has to
    return (see form_of), "" for anything."""
    import torch

    if not upstream:

        def plain(inputs: Any) -> list[Any]:
            if not torch.is_grad_enabled():  # where short calls are timed: entering takes 2 us
                return flatten(model(*inputs), form)
            with torch.no_grad():
                return flatten(model(*inputs), form)

        return plain

    count = len(upstream)

    def backward(inputs: Any) -> list[Any]:
        leaves, sources = _leaves(inputs[:-count])
        sources += list(model.parameters()) if hasattr(model, "parameters") else []
        outputs = flatten(model(*leaves), form)
        pairs = [
            (_root(outputs, number, given), given)
            for number, given in zip(upstream, inputs[-count:], strict=True)
        ]
        # another dtype is refused later
        pairs = [(root, given.to(root.dtype)) for root, given in pairs if root.requires_grad]
        if not pairs:
            raise modules.LoadError("structure", _NO_GRADIENTS)
        found = torch.autograd.grad(
            [r for r, _ in pairs], sources, [g for _, g in pairs], allow_unused=True
        )
        return [o.detach() for o in outputs] + [
            torch.zeros_like(s) if g is None else g for g, s in zip(found, sources, strict=True)
        ]

    return backward


def in_layout(call: Callable[[Any], list[Any]], outputs: Layout) -> Callable[[Any], list[Any]]:
    """The same call, with outputs contiguous or in the reference's own strides, and no value left
    to be computed by who reads it: what that takes is a part of the call."""
    wanted = [tuple(leaf.get("as", leaf["stride"])) for leaf in outputs["leaves"]]

    def made(inputs: Any) -> list[Any]:
        found = call(inputs)
        # how many there must be is looked at later
        for number, (tensor, stride) in enumerate(zip(found, wanted, strict=False)):
            if tensor.is_conj() or tensor.is_neg():
                tensor = found[number] = tensor.resolve_conj().resolve_neg()
            if tensor.stride() != stride and not tensor.is_contiguous():
                found[number] = tensor.contiguous()
        return found

    return made


def roots(model: Callable[..., Any], inputs: Any) -> dict[int, Any]:
    """The outputs, by number, from which gradients flow back: those of a task decide. Raises
    LoadError("structure") without one."""
    outputs = flatten(model(*_leaves(inputs)[0]))
    if found := {number: o.detach() for number, o in enumerate(outputs) if o.requires_grad}:
        return found
    raise modules.LoadError("structure", _NO_GRADIENTS)


_NO_GRADIENTS = "no output requires grad, but the task asks for gradients"


def _leaves(inputs: Any) -> tuple[list[Any], list[Any]]:
    """The inputs with floating tensors as leaves of a graph, and these tensors alone, in order."""
    sources = []

    def leaf(tensor: Any) -> Any:
        if not tensor.is_floating_point():
            return tensor
        sources.append(tensor.detach().requires_grad_())
        return sources[-1]

    # plain tensors go the short way: this is a part of calls that are timed
    return [leaf(v) if hasattr(v, "data_ptr") else changed(v, leaf) for v in inputs], sources


def _root(outputs: list[Any], number: int, given: Any) -> Any:
    """The output that a gradient is with respect to."""
    if number >= len(outputs):
        raise modules.LoadError(
            "structure",
            f"{len(outputs)} outputs; the reference has a differentiable output {number}",
        )
    if outputs[number].shape != given.shape:
        raise modules.LoadError("shape", _other_shape(number, outputs[number], given))
    return outputs[number]


def _other_shape(number: int, tensor: Any, wanted: Any) -> str:
    return (
        f"output {number} has shape {tuple(tensor.shape)}, the reference's has "
        f"{tuple(wanted.shape)}"
    )


TENSOR = "a tensor"
# attributes that torch.compile leaves on a model's parameters; whoever reads an output asks none
_MARKS = {"_dynamo_static_input_type"}


def form_of(value: Any) -> str:
    """What forward returns, in words: "a tensor", "(a tensor, a tensor)", "{'loss': a tensor}". A
    list is as good as a tuple."""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(form_of, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {form_of(value[key])}' for key in sorted(value))}}}"
    return TENSOR


def flatten(value: Any, form: str = "") -> list[Any]:
    """The tensors of an output in order. Raises LoadError("structure") for anything that is not a
    plain tensor, and for another form than `form` (see form_of) where one is given."""
    import torch

    if (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and (not value.__dict__ or value.__dict__.keys() <= _MARKS)
        and form in ("", TENSOR)
    ):
        return [value]
    if form and (found := form_of(value)) != form:
        raise modules.LoadError(
            "structure", f"forward returns {found:.200}; the reference returns {form:.200}"
        )
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flatten(v)]
    if isinstance(value, dict):
        return [t for k in sorted(value) for t in flatten(value[k])]
    raise modules.LoadError(
        "structure",
        f"an output is a {type(value).__name__}{_attributes(value)}; only plain tensors (in "
        "lists, tuples, dicts) count",
    )


def _attributes(value: Any) -> str:
    names = ", ".join(name for name in getattr(value, "__dict__", {}) if name not in _MARKS)
    return f" with attributes of its own ({names})" if names else ""


class Host(ShownHost):
    """Serves commands from one socket until it closes. Subclasses add commands as methods
    `on_NAME`."""

    def __init__(self, sock: socket.socket, text_fd: int) -> None:
        self._sock = sock
        self._text = memory_files.map_shared(text_fd, frames.TEXT_BYTES)
        self._sequence = 0
        self._clocks: dict[str, placement.HostClock | placement.DeviceClock] = {}
        self.prepared: dict[str, Prepared] = {}
        # whether this worker checks what is written around tensors; never while something is timed
        self.guarded = False
        self._heap = contextlib.ExitStack()  # what fills its holes while a block is timed

    def serve(self) -> None:
        """Returns when the judge closes the socket."""
        while True:
            try:
                command, fds = frames.receive(self._sock)
            except frames.WorkerGone:
                return
            self._sequence += 1
            try:
                handler = getattr(self, f"on_{command.pop('op')}")
                self.reply(frames.OK, *self._unpack(handler(fds, **command)))
            except modules.LoadError as error:
                self.fail(error.kind, str(error))
            except MemoryError as error:
                self.fail("out_of_memory", f"out of memory: {error}")
            except Exception as error:  # whatever the loaded text raises is a finding about it
                self.fail(_kind(error), _trace(error))
            finally:
                for fd in fds:
                    os.close(fd)
                # the log is full, or the text replaced sys.stdout
                with contextlib.suppress(OSError, ValueError):
                    sys.stdout.flush()

    def reply(self, code: int, data: Any = None, values: tuple[int, ...] = ()) -> None:
        """Answer, with `data` as JSON in the text buffer."""
        self._sock.send(
            frames.Reply(
                code, self._sequence, 0 if data is None else self.put(json.dumps(data)), values
            ).pack()
        )

    def tell(self, address: int, nbytes: int, fd: int) -> None:
        """Hand an allocation of this process's device memory over."""
        socket.send_fds(
            self._sock,
            [frames.Reply(frames.MEMORY, self._sequence, 0, (address, nbytes)).pack()],
            [fd],
        )

    def fail(self, kind: str, message: str) -> None:
        """Answer with an error of ERROR_KINDS."""
        self._sock.send(
            frames.Reply(
                frames.ERROR, self._sequence, self.put(message), (ERROR_KINDS.index(kind),)
            ).pack()
        )

    def put(self, text: str) -> int:
        """Leave text for the judge; the number of bytes that fitted."""
        data = text.encode(errors="replace")[: frames.TEXT_BYTES]
        self._text[: len(data)] = data
        return len(data)

    @staticmethod
    def _unpack(result: Any) -> tuple[Any, tuple[int, ...]]:
        return result if isinstance(result, tuple) else (result, ())

    # ---- commands --------------------------------------------------------------------------------

    def on_threads(self, fds: list[int], count: int, cpus: list[int]) -> None:
        """Pin this process and set torch's thread count."""
        if cpus:
            os.sched_setaffinity(0, cpus)  # first: threads stay where they are started
        placement.use_threads(count)

    def on_arrive(self, fds: list[int], device: str) -> None:
        """Have a context on the device."""
        import torch

        torch.zeros(1, device=device)

    def on_burst(
        self,
        fds: list[int],
        key: str,
        layouts: list[Layout],
        sets: list[tuple[int, int, int]],
        order: list[int],
        record: bool = False,
        queue_ns: int = 0,
    ) -> tuple[Any, tuple[int, ...]]:
        """Say READY, receive the input sets with the start signal, call the model once for each
        entry of `order`, copy the outputs to their slots. sets: of each the number of its file,
        where it starts there, the number of its layout. queue_ns: how long a device waits for its
        launches to be queued, at least. values: nanoseconds, minor faults, major faults,
        involuntary context switches of the calls alone."""
        model = self.prepared[key]
        slots, clock = model.views(len(order)), self.clock(model.device)
        recorder = operators.Recorder() if record else None
        self.reply(frames.READY)
        packet, files = frames.receive_bytes(self._sock, 16)
        if not packet:
            os._exit(0)
        fds += files  # closed with the command
        guard = guards.Guard() if self.guarded else None
        values = _inputs(files, layouts, sets, model.device, guard)
        arguments = [values[i] for i in order]
        clock.prepare(queue_ns)
        with contextlib.ExitStack() as watching:
            for watcher in (guard, recorder):
                if watcher is not None:
                    watching.enter_context(watcher)
            outputs, figures = running.run(model.call, arguments, clock)
        if guard is not None:
            guard.check()
        for tensors, slot in zip(outputs, slots, strict=True):
            _hand_over(tensors, slot)
        del outputs, arguments, values
        if guard is not None:
            guarded_memory.protect_unused()
        return (recorder.counts() if recorder else None), figures

    def on_calls(
        self,
        fds: list[int],
        keys: list[str],
        layout: Layout,
        outputs: Layout,
        results: int,
        upstream: list[int],
        touched: tuple[int, int],
        first: bool,
        last: bool,
    ) -> None:
        """Say READY, then make calls one by one as the judge orders. Descriptors: the gate and, for
        packets, their socket; or the memory in which inputs appear and the event that wakes.
        touched: size and count, see heap.without_holes. first, last: whether this is that command
        of a timed block, all of which find the same heap."""
        import torch

        models = [self.prepared[key].call for key in keys]
        task = gate.CallForm(layout, gate.expected(outputs), results, upstream)
        count = len(task.outputs)
        link = (
            gate.Packets(fds[1], layout, count)
            if len(fds) == 2
            else gate.Asleep(fds[1], fds[2], count)
        )
        door = gate.Gate(fds[0], count)
        if first:
            self._heap.close()  # a block before may have ended early
            self._heap.enter_context(heap.without_holes(*touched))
        with torch.set_grad_enabled(bool(upstream)):
            self.reply(frames.READY)
            door.serve(link, models, task)
        if last:
            self._heap.close()

    def on_drop(self, fds: list[int], key: str) -> None:
        """Forget a case's model and slots, and the memory that was kept for its tensors."""
        self.prepared.pop(key, None)
        guarded_memory.release()

    def on_pack(self, fds: list[int]) -> dict[str, int]:
        """Hand over what was compiled so far."""
        return {"bytes": compile_cache.pack(fds[0])}

    def on_hot(
        self, fds: list[int], key: str, layout: Layout, base: int, calls: int, queue_ns: int
    ) -> tuple[Any, tuple[int, ...]]:
        """Call the model over and over on one input set, whose outputs nobody sees. values:
        nanoseconds of all calls with warm caches, of all calls when each is waited for, and what an
        exported package takes to find its kernel for them (0 for others)."""
        model = self.prepared[key]
        clock = self.clock(model.device)
        if fds:
            (inputs,) = _inputs(fds, [layout], [(0, base, 0)], model.device, None)
        else:
            assert self.window is not None
            (inputs,) = self.window.inputs([layout], [(base, 0)])
        clock.prepare(queue_ns, cold=False)
        warm = running.over_and_over(model.call, inputs, calls, clock)
        deciding = running.deciding(model.without_kernel, inputs) if model.without_kernel else 0
        return None, (warm, clock.waiting(model.call, [inputs] * calls), calls * deciding)

    def clock(self, device: str) -> placement.HostClock | placement.DeviceClock:
        if device not in self._clocks:
            self._clocks[device] = placement.clock(device)
        return self._clocks[device]


def _inputs(
    files: list[int],
    layouts: list[Layout],
    sets: list[tuple[int, int, int]],
    device: str,
    guard: guards.Guard | None,
) -> list[Any]:
    """Input sets where the model wants them."""
    if guard is None:
        maps = [memory_files.map_private(fd) for fd in files]
        return [
            placement.move(buffers.build(layouts[layout], maps[file], base), device)
            for file, base, layout in sets
        ]
    read = [
        buffers.read(files[file], layouts[layout], memory_faults.protect, base)
        for file, base, layout in sets
    ]
    return [guards.guard_inputs(value, device, guard) for value in read]


def _hand_over(tensors: list[Any], slots: list[Any]) -> None:
    import torch

    if len(tensors) != len(slots):
        raise modules.LoadError("structure", f"{len(tensors)} outputs instead of {len(slots)}")
    for number, (tensor, slot) in enumerate(zip(tensors, slots, strict=True)):
        if tensor.shape != slot.shape:
            raise modules.LoadError("shape", _other_shape(number, tensor, slot))
        if tensor.dtype != slot.dtype:
            raise modules.LoadError(
                "dtype", f"output {number} is {tensor.dtype}, the reference's is {slot.dtype}"
            )
        if tensor.dtype == torch.bool:  # whose bytes a copy would make 0 or 1
            slot, tensor = slot.view(torch.uint8), tensor.view(torch.uint8)
        slot.copy_(tensor.detach())


def _kind(error: Exception) -> str:
    text = str(error)
    if type(error).__name__ == "NativeError":
        return "native"
    if any(c.__name__ == "TritonError" for c in type(error).__mro__):
        return _triton_kind(error)
    if "not enough memory" in text or "out of memory" in text or "can't allocate memory" in text:
        return "out_of_memory"
    return "exception"


def _triton_kind(error: BaseException) -> str:
    """Triton's interpreter wraps whatever a kernel raises: names, shapes and types are its grammar,
    the rest is a crash."""
    inner = error.__cause__
    if type(error).__name__ != "InterpreterError" or inner is None:
        return "compile"
    return (
        "compile"
        if isinstance(inner, (NameError, AttributeError, ValueError, TypeError))
        else "exception"
    )


def _trace(error: BaseException) -> str:
    """The error, then the innermost frames of the loaded text."""
    inside = ("/harness/", "/triton/", "/torch/nn/modules/")
    frames_ = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not any(i in f.filename for i in inside)
    ]
    own = [f for f in frames_ if not os.path.isabs(f.filename)] or frames_[-1:]
    where = "".join(
        f"\n  {f.filename}, line {f.lineno}, in {f.name}: {f.line or ''}" for f in own[-6:]
    )
    return f"{type(error).__name__}: {error}{_causes(error)}{where}"


def _causes(error: BaseException) -> str:
    """What the compiler says about functions that a kernel calls stands in the causes of its
    error."""
    said, inner = "", error.__cause__
    while inner is not None and any(c.__name__ == "CompilationError" for c in type(error).__mro__):
        said += f"\n{type(inner).__name__}: {inner}"
        error, inner = inner, inner.__cause__
    return said
