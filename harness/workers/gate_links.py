"""The links by which a worker learns of an order in the gate and answers: packets, or an event."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from typing import Any

from ..wire import buffers, memory_files
from ..wire.layouts import Layout

DONT_WAIT, NO_SIGNAL = 0x40, 0x4000  # MSG_DONTWAIT, MSG_NOSIGNAL of Linux
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
        """Create a message of `count` empty parts."""
        return cls(parts=(Part * max(1, count))(), count=count)


class Link(ABC):
    """How a worker learns of an order and answers. memory: of the inputs. parts: one for each
    output."""

    def __init__(self, memory: Any, outputs: int) -> None:
        self.memory, self._out = memory, Message.of(outputs)
        self.parts = [self._out.parts[number] for number in range(outputs)]
        self._start = buffers.address(memory)
        self._end = self._start + len(memory)

    @abstractmethod
    def wait(self) -> None:
        """Wait for an order."""

    @abstractmethod
    def answer(self, *, whole: bool) -> None:
        """Report that the order is complete. whole: with its outputs."""

    def holds(self, tensor: Any) -> bool:
        """Return whether a tensor lies in the inputs' memory, which changes after the call."""
        return bool(self._start <= tensor.data_ptr() < self._end)


class Asleep(Link):
    """A link whose worker sleeps until an event. Inputs are in memory that the judge writes. The
    gate itself shows that an order is complete."""

    def __init__(self, table: int, wake: int, outputs: int) -> None:
        super().__init__(memory_files.map_read_only(table), outputs)
        self._wake = wake

    def wait(self) -> None:
        os.read(self._wake, 8)

    def answer(self, *, whole: bool) -> None:
        """Do nothing: the judge reads the gate."""


class Packets(Link):
    """A link by packets. It polls, so that the core stays awake."""

    def __init__(self, socket: int, layout: Layout, outputs: int) -> None:
        memory = bytearray(int(layout["bytes"]))
        super().__init__(memory, outputs)
        leaves = [leaf for leaf in layout["leaves"] if leaf.get("nbytes")]
        self._socket, self._in, self._short = socket, Message.of(len(leaves)), Message.of(1)
        for number, leaf in enumerate(leaves):
            self._in.parts[number] = Part(self._start + leaf["offset"], leaf["nbytes"])
        self._byte = ctypes.c_char(b"-")
        self._short.parts[0] = Part(ctypes.addressof(self._byte), 1)
        self._long_message = ctypes.byref(self._out)
        self._short_message = ctypes.byref(self._short)

    def wait(self) -> None:
        receive, socket, message = _libc.recvmsg, self._socket, ctypes.byref(self._in)
        while receive(socket, message, DONT_WAIT) < 0:
            pass

    def answer(self, *, whole: bool) -> None:
        message = self._long_message if whole else self._short_message
        _libc.sendmsg(self._socket, message, NO_SIGNAL)
