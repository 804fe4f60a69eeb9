"""The common part of every worker that runs a model: it answers commands, runs bursts over given
inputs, and returns outputs as bytes.

Baseline and candidate run through exactly this code, so that its overhead is the same on both sides
of a comparison.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from typing import Any

from ..wire import buffers, frames, memory_files
from ..wire.layouts import Layout
from . import (
    call_form,
    call_manners,
    compile_cache,
    error_report,
    gate,
    gate_links,
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
from .prepared_model import PreparedModel, copy_to_slots


class Host(ShownHost):
    """Serves commands from one socket until it closes. Subclasses add commands as methods
    `on_NAME`."""

    def __init__(self, sock: socket.socket, text_fd: int) -> None:
        self._sock = sock
        self._text = memory_files.map_shared(text_fd, frames.TEXT_BYTES)
        self._sequence = 0
        self._clocks: dict[str, placement.HostClock | placement.DeviceClock] = {}
        self.prepared: dict[str, PreparedModel] = {}
        # whether this worker checks for writes around tensors; never during timing
        self.guarded = False
        self._hole_filling = contextlib.ExitStack()  # fills the heap's holes during a timed block

    def serve(self) -> None:
        """Serve until the judge closes the socket."""
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
                self.fail(error_report.kind_of(error), error_report.describe(error))
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

    def send_allocation(self, address: int, nbytes: int, fd: int) -> None:
        """Share an allocation of this process's device memory."""
        socket.send_fds(
            self._sock,
            [frames.Reply(frames.MEMORY, self._sequence, 0, (address, nbytes)).pack()],
            [fd],
        )

    def fail(self, kind: str, message: str) -> None:
        """Answer with an error of error_report.ERROR_KINDS."""
        self._sock.send(
            frames.Reply(
                frames.ERROR,
                self._sequence,
                self.put(message),
                (error_report.ERROR_KINDS.index(kind),),
            ).pack()
        )

    def put(self, text: str) -> int:
        """Write text to the buffer for the judge. Returns the number of bytes that fitted."""
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
            os.sched_setaffinity(0, cpus)  # first: threads inherit the affinity at their start
        placement.use_threads(count)

    def on_arrive(self, fds: list[int], device: str) -> None:
        """Create a context on the device."""
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
        manner: str = "",
    ) -> tuple[Any, tuple[int, ...]]:
        """Call the model once for each entry of `order`, and copy the outputs to their slots.
        Descriptors: the files of the input sets. sets: for each the index of its file, its start in
        the file, the index of its layout. queue_ns: the least time that a device waits for its
        launches to be queued. manner: see call_manners. values: nanoseconds, minor faults, major
        faults, involuntary context switches of the calls alone, and nanoseconds until all calls
        were queued."""
        model = self.prepared[key]
        slots, clock = model.views(len(order)), self.clock(model.device)
        recorder = operators.Recorder() if record else None
        guard = guards.Guard() if self.guarded and not manner else None
        values = _inputs(fds, layouts, sets, model.device, guard)
        arguments = [values[i] for i in order]
        shown = guards.appearance(arguments) if guard is not None else []
        clock.prepare(queue_ns)
        with contextlib.ExitStack() as watchers:
            for watcher in (guard, recorder):
                if watcher is not None:
                    watchers.enter_context(watcher)
            outputs, figures = running.run(call_manners.wrap(model, manner), arguments, clock)
        if guard is not None:
            guard.check()
            guards.refuse_changes(shown, arguments)
            for tensors, inputs in zip(outputs, arguments, strict=True):
                model.refuse_inputs(tensors, inputs)
        for tensors, slot in zip(outputs, slots, strict=True):
            copy_to_slots(tensors, slot)
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
        """Reply READY, then make calls one by one as the judge orders. Descriptors: the gate, then
        the socket for packets, or the memory in which inputs appear and the event that wakes the
        worker. touched: size and count, see heap.without_holes. first, last: whether this command
        is the first or last of a timed block; all commands of a block get the same heap."""
        import torch

        models = [self.prepared[key].call for key in keys]
        task = call_form.CallForm(layout, call_form.output_forms(outputs), results, upstream)
        count = len(task.outputs)
        link = (
            gate_links.Packets(fds[1], layout, count)
            if len(fds) == 2
            else gate_links.Asleep(fds[1], fds[2], count)
        )
        orders = gate.Gate(fds[0], count)
        if first:
            self._hole_filling.close()  # the previous block may have ended early
            self._hole_filling.enter_context(heap.without_holes(*touched))
        with torch.set_grad_enabled(bool(upstream)):
            self.reply(frames.READY)
            orders.serve(link, models, task)
        if last:
            self._hole_filling.close()

    def on_drop(self, fds: list[int], key: str) -> None:
        """Forget a case's model and slots, and release the memory kept for its tensors."""
        self.prepared.pop(key, None)
        guarded_memory.release()

    def on_pack(self, fds: list[int]) -> dict[str, int]:
        """Write the caches of what was compiled so far to the descriptor."""
        return {"bytes": compile_cache.pack(fds[0])}

    def on_hot(
        self, fds: list[int], key: str, layout: Layout, base: int, calls: int, queue_ns: int
    ) -> tuple[Any, tuple[int, ...]]:
        """Call the model repeatedly on one input set and discard the outputs. values: nanoseconds
        of all calls with warm caches, of all calls when each is waited for, and of an exported
        package's choice of its kernel in all calls (0 for others)."""
        model = self.prepared[key]
        clock = self.clock(model.device)
        if fds:
            (inputs,) = _inputs(fds, [layout], [(0, base, 0)], model.device, None)
        else:
            assert self.window is not None
            (inputs,) = self.window.inputs([layout], [(base, 0)])
        clock.prepare(queue_ns, cold=False)
        warm = running.repeated_calls_ns(model.call, inputs, calls, clock)
        dispatch = running.dispatch_ns(model.without_kernel, inputs) if model.without_kernel else 0
        return None, (warm, clock.waiting(model.call, [inputs] * calls), calls * dispatch)

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
    """Build the input sets on the model's device."""
    if guard is None:
        maps = [memory_files.map_private(fd) for fd in files]
        return [
            placement.move(buffers.build(layouts[layout], maps[file], base), device)
            for file, base, layout in sets
        ]
    values = [
        buffers.read(files[file], layouts[layout], memory_faults.protect, base)
        for file, base, layout in sets
    ]
    return [guards.guard_inputs(value, device, guard) for value in values]
