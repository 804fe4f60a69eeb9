"""Short calls on a CPU: inputs arrive as one packet, and outputs are returned as one.

The judge's clock runs from before it sends the packet of inputs until the packet of outputs has
arrived. A candidate has no inputs before, and later work cannot change a packet that was sent.
"""

from __future__ import annotations

import socket
import time

from ...wire import frames
from ...workers import gate
from .calls import Caller
from .case_pool import CasePool
from .input_sets import InputSet
from .worker_outputs import OutputPlace, copy_dense, interference


class PacketCaller(Caller):
    """A caller whose worker polls for packets, so that its core and caches are as in a loop of
    calls."""

    POLLS = True
    # After a kernel, caches hold less of Python's code than after an empty call: a loop in native
    # code saved 1.6 times as much.
    OPEN_FACTOR = 2

    def _link(self, pool: CasePool) -> list[int]:
        self._socket, worker_end = frames.pair()
        for end in (
            self._socket,
            worker_end,
        ):  # twice the largest message, since the kernel counts its own overhead
            end.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, gate.MOST_SPREAD * gate.PACKET_BYTES
            )
        self._worker_end = worker_end  # kept until the worker has received it
        self._leaves = [leaf for leaf in self._layout["leaves"] if leaf.get("nbytes")]
        self._socket.setblocking(False)
        self._unread = memoryview(bytearray(self._slot_bytes))  # for outputs that are not checked
        return [worker_end.fileno()]

    def _hand_over(self, input_set: InputSet | None) -> int:
        parts: list[memoryview] | list[bytes] = [b"-"]
        if input_set is not None:
            view = input_set.file.view
            parts = [
                view[input_set.base + leaf["offset"] :][: leaf["nbytes"]] for leaf in self._leaves
            ]
        if self._is_done():
            raise interference(self._worker, "outputs before there were inputs")
        began = time.perf_counter_ns()
        self._socket.sendmsg(parts)
        return began

    def _is_done(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        return True

    def _collect(self, slot: memoryview | None) -> list[OutputPlace]:
        places = self._outputs.places(self._gate)
        if slot is None:
            slot = self._unread
        spread = {
            number: memoryview(bytearray(place.size))
            for number, place in enumerate(places)
            if place.strides is not None
        }
        parts = [
            spread[number] if number in spread else slot[place.leaf["offset"] :][: place.size]
            for number, place in enumerate(places)
        ]
        size, attached, flags, _ = self._socket.recvmsg_into([*parts, bytearray(1)])
        if attached or flags & socket.MSG_CTRUNC:
            raise interference(self._worker, "a message with attachments")
        if size != sum(place.size for place in places):
            raise interference(self._worker, f"outputs of {size} bytes")
        for number, source in spread.items():
            leaf = places[number].leaf
            copy_dense(source, places[number], slot[leaf["offset"] :][: leaf["nbytes"]])
        return places

    def _order(
        self,
        order: int,
        number: int = 0,
        plain: bytes = b"",
        input_set: InputSet | None = None,
    ) -> int:
        elapsed_ns = super()._order(order, number, plain, input_set)
        if order in (gate.FORGET, gate.END):
            self._socket.recv(1)
        return elapsed_ns

    def _figure(self, elapsed_ns: int, bill_ns: int) -> int:
        return elapsed_ns

    def close(self) -> None:
        super().close()
        self._socket.close()
        self._worker_end.close()
