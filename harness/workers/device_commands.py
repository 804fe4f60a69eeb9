"""Commands of a worker on a device that shares memory with the judge: inputs appear in a window,
and the judge reads outputs in place."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
from collections.abc import Sequence
from typing import Any

from ..wire import frames, stream_words
from ..wire.layouts import Layout
from . import call_form, call_manners, guarded_memory, guards, operators, running
from .window import Window


class ShownHost:
    """A mixin for a host, which has the models and the socket."""

    window: Window | None = None
    _outputs: Any = None  # the outputs of the last burst, which the judge reads in place
    _retained: Sequence[list[Any]] = ()  # outputs of earlier calls that are kept
    _events: Any = None

    def on_window(self: Any, fds: list[int], nbytes: int) -> None:
        """Map the window. Descriptors: the memory in which inputs will appear and, the first time,
        the words. Also checks that torch's allocations can be shared."""
        import torch

        if self.window is not None:
            self.window.replace(fds[0], nbytes)
            return
        self.window = Window(fds[0], nbytes, fds[1])
        output = torch.zeros(1, device="cuda")
        form = (output.shape, output.dtype, output.nbytes)
        self.window.show([[output]], [form], self.send_allocation)

    def on_shown(
        self: Any,
        fds: list[int],
        key: str,
        layouts: list[Layout],
        sets: list[tuple[int, int]],
        order: list[int],
        record: bool = False,
        queue_ns: int = 0,
        manner: str = "",
    ) -> tuple[Any, tuple[int, ...]]:
        """Reply READY, wait for the start signal (the inputs are then in the window), call the
        model once for each entry of `order`, and reply with the places of the outputs. sets: for
        each its start in the window and the index of its layout. The rest is as in `on_burst`."""
        model = self.prepared[key]
        clock, recorder = self.clock(model.device), operators.Recorder() if record else None
        self._outputs = None  # the judge has copied it
        self.reply(frames.READY)
        if not frames.receive_bytes(self._sock, 16)[0]:
            os._exit(0)
        guard = guards.Guard() if self.guarded and not manner else None
        values = self.window.inputs(layouts, sets)
        if guard is not None:
            values = [guards.guard_inputs(value, model.device, guard) for value in values]
        arguments = [values[i] for i in order]
        clock.prepare(queue_ns)
        with contextlib.ExitStack() as watchers:
            for watcher in (guard, recorder):
                if watcher is not None:
                    watchers.enter_context(watcher)
            outputs, figures = running.run(call_manners.wrap(model, manner), arguments, clock)
        if guard is not None:
            guard.check()
        places = self._show(model, outputs)
        self._outputs = outputs
        if guard is not None:
            guarded_memory.protect_unused()
        return {"outputs": places, "operators": recorder.counts() if recorder else None}, figures

    def on_queued(
        self: Any,
        fds: list[int],
        key: str,
        layouts: list[Layout],
        sets: list[tuple[int, int]],
        number: int,
        early: bool = False,
    ) -> tuple[Any, tuple[int, ...]]:
        """Queue calls on the sets in the stream, between a wait until the judge's word is `number`
        and a write of the same number to the worker's word. Replies READY with the places of the
        outputs, then OK when all work is done. Without a key no model is called. The wait is the
        driver's, so that the device has no work for this process until then. Around a single call
        nothing else is queued: a candidate could leave it out, which would shorten its calls alone.
        early: write the worker's word before the calls, as such a candidate could. values: as in
        `on_burst`, for information only; a single call has no time."""
        import torch

        if self._events is None:
            self._events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        words, (begin, end) = self.window.words, self._events
        model, alone = self.prepared[key] if key else None, len(sets) == 1
        arguments = self.window.inputs(layouts, sets) if key else []
        self._outputs = None
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream().cuda_stream
        gc.disable()
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter_ns()
        words.await_on(stream, stream_words.GO, number)
        if not alone:
            words.hold_on(
                stream, stream_words.GO, number
            )  # the same first kernel in all bursts of several
        if early:
            words.write_on(stream, stream_words.DONE, number)
        if not alone:
            begin.record()
        if model is None:
            self.window.nothing()
        outputs = [model.call(inputs) for inputs in arguments] if model is not None else []
        if not alone:
            end.record()
        queued = time.perf_counter_ns() - start
        places = self._show(model, outputs) if model is not None else []
        if not early:
            words.write_on(stream, stream_words.DONE, number)
        after = resource.getrusage(resource.RUSAGE_SELF)
        self._outputs = outputs
        self.reply(frames.READY, places)
        torch.cuda.synchronize()
        gc.enable()
        elapsed = 0 if alone else int(begin.elapsed_time(end) * 1e6)
        return None, running.figures(elapsed, before, after, queued)

    def on_hold(self, fds: list[int], place: int, calls: list[int]) -> None:
        """Keep the outputs of these calls of the last burst, in place of the kept ones from index
        `place` on; without calls, release all, and memory that nothing uses."""
        outputs = [self._outputs[call] for call in calls]
        retained = list(self._retained) if calls else []
        retained[place : place + len(outputs)] = outputs
        self._retained = retained
        if not calls:
            import torch

            torch.cuda.empty_cache()

    def is_readable(self: Any, tensor: Any) -> bool:
        """Return whether the judge can read a tensor of this process while it is stopped; shares
        the device memory around it if need be."""
        if tensor.device.type == "cpu":
            return self.window is None
        return self.window is not None and self.window.is_mapped(tensor, self.send_allocation)

    def _show(self: Any, model: Any, outputs: list[list[Any]]) -> list[list[Any]]:
        forms = call_form.output_forms(model.outputs)
        return self.window.show(outputs, forms, self.send_allocation)  # type: ignore[no-any-return]
