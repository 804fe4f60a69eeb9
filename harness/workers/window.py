"""A device worker's side of what it shares with the judge: inputs appear in a window that it can
only read, outputs stay where they are.

Where outputs lie is said by address, and the allocations around them are handed over as
descriptors, each once. What the judge makes of it is its own business: it copies the bytes before
it believes in any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..wire import buffers, device_memory, stream_words
from ..wire.layouts import Layout
from . import call_form, modules

SendAllocation = Callable[[int, int, int], None]  # address, bytes and descriptor of an allocation


class Window:
    """The window of one worker, the words of its bursts, and the pages of its memory that the judge
    maps."""

    def __init__(self, memory: int, nbytes: int, words: int) -> None:
        import torch

        self._bytes = device_memory.map_descriptor(memory, nbytes, writable=False)
        self.words = stream_words.SharedWords(words)
        # pages that the judge maps, by the number of a step of addresses
        self._pages: dict[int, device_memory.DevicePage] = {}
        self._tiny = torch.zeros(1, device="cuda")
        # what is loaded late is loaded now
        self.words.hold_on(torch.cuda.current_stream().cuda_stream, stream_words.GO, 0)
        self.nothing()

    def replace(self, memory: int, nbytes: int) -> None:
        """Map another window instead."""
        self._bytes = device_memory.map_descriptor(memory, nbytes, writable=False)

    def inputs(self, layouts: list[Layout], sets: list[tuple[int, int]]) -> list[Any]:
        """What will appear there. sets: of each where it starts, and the number of its layout."""
        return [buffers.build(layouts[layout], self._bytes, base) for base, layout in sets]

    def nothing(self) -> None:
        """The smallest work that a device can be given."""
        self._tiny.add_(1)

    def show(
        self, calls: list[list[Any]], expected: call_form.Forms, send: SendAllocation
    ) -> list[list[Any]]:
        """Where the outputs of all calls lie, one after the other: address and, unless it is
        contiguous, strides in elements. One in memory that cannot be shown, or in that of the
        inputs, which change once the calls are over, is replaced by a copy, in the lists as
        well."""
        places = []
        for outputs in calls:
            if len(outputs) != len(expected):
                raise modules.LoadError(
                    "structure", f"{len(outputs)} outputs instead of {len(expected)}"
                )
            for number, (tensor, (shape, dtype, _)) in enumerate(
                zip(outputs, expected, strict=True)
            ):
                if tensor.shape != shape or tensor.dtype != dtype:
                    raise call_form.form_error(tensor, shape, dtype)
                output = outputs[number] = self._in_mapped_memory(tensor, send)
                places.append(
                    [output.data_ptr(), None if output.is_contiguous() else list(output.stride())]
                )
        return places

    def _in_mapped_memory(self, tensor: Any, send: SendAllocation) -> Any:
        """The tensor, or a copy of it, in memory that the judge maps."""
        output = tensor.detach()
        if output.numel() == 0:
            return output
        if call_form.spread_bytes(output.shape, output.stride(), output.itemsize) != output.nbytes:
            # with gaps, or one element several times: to be copied by whoever made it so
            output = output.contiguous()
        if not (output.is_cuda and not self._holds(output) and self._is_mapped(output, send)):
            output = output.to("cuda", copy=True)
            if not self._is_mapped(output, send):
                text = (
                    "its outputs lie in device memory that cannot be shown to the judge: leave "
                    "torch's allocator as it is"
                )
                raise modules.LoadError("exception", text)
        return output

    def _holds(self, tensor: Any) -> bool:
        """Whether a tensor lies in the window."""
        return bool(0 <= tensor.data_ptr() - self._bytes.data_ptr() < len(self._bytes))

    def _is_mapped(self, tensor: Any, send: SendAllocation) -> bool:
        """Whether the judge maps all the memory around a tensor, once it was sent what is new."""
        start = tensor.data_ptr()
        end = start + call_form.spread_bytes(tensor.shape, tensor.stride(), tensor.itemsize)
        while start < end:
            page = self._pages.get(start // device_memory.STEP)
            if page is None or not device_memory.is_still(page):
                if page is not None:
                    self._forget(page)
                page = device_memory.page(start)
                fd = device_memory.export(page) if page is not None else None
                if page is None or fd is None:
                    return False
                try:
                    send(page.address, page.nbytes, fd)
                finally:
                    os.close(fd)
                steps = range(
                    page.address // device_memory.STEP,
                    (page.address + page.nbytes) // device_memory.STEP,
                )
                self._pages.update(dict.fromkeys(steps, page))
            start = page.address + page.nbytes
        return True

    def _forget(self, page: device_memory.DevicePage) -> None:
        """An allocation that lies there no more. Once: what `export` has kept of it is let go."""
        self._pages = {step: other for step, other in self._pages.items() if other is not page}
        device_memory.release(page.handle)
