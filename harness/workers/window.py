"""A device worker's side of the memory shared with the judge: inputs appear in a window that it can
only read, and outputs stay where they are.

The worker reports outputs by address and sends a descriptor of each allocation around them once.
The judge trusts none of this: it copies the bytes before it checks them.
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
        # pages that the judge maps, by address // device_memory.STEP
        self._pages: dict[int, device_memory.DevicePage] = {}
        self._tiny = torch.zeros(1, device="cuda")
        # load now the kernels that are loaded at first use
        self.words.hold_on(torch.cuda.current_stream().cuda_stream, stream_words.GO, 0)
        self.nothing()

    def replace(self, memory: int, nbytes: int) -> None:
        """Map another window instead."""
        self._bytes = device_memory.map_descriptor(memory, nbytes, writable=False)

    def inputs(self, layouts: list[Layout], sets: list[tuple[int, int]]) -> list[Any]:
        """Build the inputs that will appear in the window. sets: for each its start in bytes and
        the index of its layout."""
        return [buffers.build(layouts[layout], self._bytes, base) for base, layout in sets]

    def nothing(self) -> None:
        """Launch the smallest piece of work for a device."""
        self._tiny.add_(1)

    def show(
        self, calls: list[list[Any]], expected: call_form.Forms, send: SendAllocation
    ) -> list[list[Any]]:
        """Return for the outputs of all calls, in order, the address and, unless contiguous, the
        strides in elements. An output in memory that cannot be shared, or in the inputs' memory,
        which changes after the calls, is replaced by a copy, also in the lists."""
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

    def is_mapped(self, tensor: Any, send: SendAllocation) -> bool:
        """Send the judge the new allocations around a tensor. Returns whether it can map all of
        them."""
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

    def _in_mapped_memory(self, tensor: Any, send: SendAllocation) -> Any:
        """Return the tensor, or a copy of it, in memory that the judge maps."""
        output = tensor.detach()
        if output.numel() == 0:
            return output
        if call_form.spread_bytes(output.shape, output.stride(), output.itemsize) != output.nbytes:
            # has gaps or repeated elements: the worker pays for the copy
            output = output.contiguous()
        if not (output.is_cuda and not self._holds(output) and self.is_mapped(output, send)):
            output = output.to("cuda", copy=True)
            if not self.is_mapped(output, send):
                text = (
                    "its outputs lie in device memory that cannot be shared with the judge: do not "
                    "change torch's allocator"
                )
                raise modules.LoadError("exception", text)
        return output

    def _holds(self, tensor: Any) -> bool:
        """Return whether a tensor lies in the window."""
        return bool(0 <= tensor.data_ptr() - self._bytes.data_ptr() < len(self._bytes))

    def _forget(self, page: device_memory.DevicePage) -> None:
        """Forget an allocation that is gone, and release the handle that `export` kept, once."""
        self._pages = {step: other for step, other in self._pages.items() if other is not page}
        device_memory.release(page.handle)
