"""Memory that a reference worker fills with inputs and their expected outputs: a file, or memory of
the judge on a device."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ...wire import buffers, memory_files
from ...wire.device_memory import DeviceRegion
from ...wire.layouts import Layout
from ..exchange.input_sets import InputFile

if TYPE_CHECKING:
    import torch


class SetMemory(ABC):
    """Memory of `nbytes`, or slightly more. Its contents live as long as a tensor in it."""

    nbytes: int

    @abstractmethod
    def fd(self) -> int:
        """Return a descriptor for the worker that fills the memory."""

    @abstractmethod
    def finish(self, fd: int) -> None:
        """Release the descriptor, after filling or failure."""

    @abstractmethod
    def file(self) -> InputFile:
        """Return the memory as an input file."""

    def tensors(self, layout: Layout) -> list[torch.Tensor]:
        """Return the tensors of a layout, in order."""
        return buffers.tensors(layout, self._memory())

    def stack(self, layout: Layout, count: int, stride: int) -> list[torch.Tensor]:
        """Return the stacked tensors of `count` equal layouts; see buffers.stack."""
        return buffers.stack(layout, self._memory(), count, stride)

    @abstractmethod
    def _memory(self) -> Any:
        """Return the mapping or the bytes in which tensors lie."""


class HostSetMemory(SetMemory):
    """A memory file that cannot be written once it is filled."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self._fd = nbytes, memory_files.create("set", nbytes)

    def fd(self) -> int:
        return self._fd

    def finish(self, fd: int) -> None:
        memory_files.seal(fd)

    def _memory(self) -> Any:
        return memory_files.map_private(self._fd)

    def file(self) -> InputFile:
        self._fd, fd = -1, self._fd
        return InputFile(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # mappings stay valid


class DeviceSetMemory(SetMemory):
    """Memory on a device that only the worker that fills it can access."""

    def __init__(self, nbytes: int) -> None:
        self._region = DeviceRegion(nbytes)
        self.nbytes = self._region.nbytes

    def fd(self) -> int:
        return self._region.export()

    def finish(self, fd: int) -> None:
        os.close(fd)

    def file(self) -> InputFile:
        return InputFile(on_device=self._region.bytes)

    def _memory(self) -> Any:
        return self._region.bytes
