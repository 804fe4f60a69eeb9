"""Memory that a reference worker fills with inputs and what is expected for them: a file, or memory
of the judge's on a device."""

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
    """So many bytes, or a few more. What it is filled with stays as long as a tensor of it is
    referred to."""

    nbytes: int

    @abstractmethod
    def fd(self) -> int:
        """A descriptor for whoever fills it."""

    @abstractmethod
    def finish(self, fd: int) -> None:
        """Let go of the descriptor: it was filled, or will not be."""

    @abstractmethod
    def file(self) -> InputFile:
        """As inputs."""

    def tensors(self, layout: Layout) -> list[torch.Tensor]:
        """The tensors of a layout, in order."""
        return buffers.tensors(layout, self._memory())

    def stack(self, layout: Layout, count: int, stride: int) -> list[torch.Tensor]:
        """Those of so many equal layouts; see buffers.stack."""
        return buffers.stack(layout, self._memory(), count, stride)

    @abstractmethod
    def _memory(self) -> Any:
        """What tensors lie in."""


class HostSetMemory(SetMemory):
    """A memory file, which nobody can write to once it is filled."""

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
            os.close(self._fd)  # mappings stay


class DeviceSetMemory(SetMemory):
    """No worker but the one that fills it ever sees it."""

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
