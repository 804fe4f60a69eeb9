"""Messages between the judge and its workers, over SOCK_SEQPACKET socket pairs.

To a worker: one JSON object per packet, with file descriptors beside it. Large texts travel in
memfds, and so does an object that exceeds a packet. From a candidate: only packets of exactly 64
bytes (`Reply`); text is given as a length into a buffer that the judge created. From trusted
workers: JSON as well. A packet of another size or with another header ends the candidate.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

from . import memory_files

MAX_PACKET = 128 * 1024
MAX_FDS = 200
_IN_FILE = {"in_file": True}  # the packet of an object that is in its last descriptor's file
TEXT_BYTES = 1 << 20  # the largest message or build request a worker can leave in its text buffer

_REPLY = struct.Struct("<4sIIi6q")
_MAGIC = b"KEV1"

READY, OK, ERROR, BUILD, DONE, MEMORY = 1, 2, 3, 4, 5, 6


class ProtocolError(Exception):
    """The other side broke the protocol."""


class WorkerGone(Exception):
    """The other side closed its end."""


@dataclass(frozen=True)
class Reply:
    """One packet from a candidate. code: READY, OK, ERROR, BUILD, DONE or MEMORY (with a descriptor
    of device memory beside it; values: address, bytes). text: the number of valid bytes in the text
    buffer. values: six integers whose meaning depends on the command."""

    code: int
    sequence: int = 0
    text: int = 0
    values: tuple[int, ...] = (0, 0, 0, 0, 0, 0)

    def pack(self) -> bytes:
        padded = (*self.values, *([0] * 6))[:6]
        return _REPLY.pack(_MAGIC, self.sequence, self.code, self.text, *padded)

    @classmethod
    def unpack(cls, packet: bytes) -> Reply:
        """Parse a packet. Raises ProtocolError unless it is exactly one reply."""
        if len(packet) != _REPLY.size:
            raise ProtocolError(f"a reply must have {_REPLY.size} bytes, got {len(packet)}")
        magic, sequence, code, text, *values = _REPLY.unpack(packet)
        if magic != _MAGIC or not READY <= code <= MEMORY or not 0 <= text <= TEXT_BYTES:
            raise ProtocolError("a reply has an invalid header")
        return cls(code, sequence, text, tuple(values))


def pair() -> tuple[socket.socket, socket.socket]:
    """Create two connected sockets that exec does not inherit by default."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(
    sock: socket.socket, message: dict[str, Any], fds: list[int] | None = None, *, wait: bool = True
) -> None:
    """Send one JSON object with copies of `fds`. Raises WorkerGone; without `wait`, BlockingIOError
    if the other side has not read the earlier packets."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_PACKET:
        file = memory_files.from_bytes("message", data)
        try:
            return send(sock, _IN_FILE, [*(fds or ()), file], wait=wait)
        finally:
            os.close(file)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        sock.sendmsg([data], ancillary, 0 if wait else socket.MSG_DONTWAIT)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise WorkerGone(str(error)) from error


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one JSON object and its file descriptors (close-on-exec). Raises WorkerGone when the
    other side has closed its end."""
    data, fds = receive_bytes(sock, MAX_PACKET)
    if not data:
        for fd in fds:
            os.close(fd)
        raise WorkerGone("closed")
    message = json.loads(data)
    if message == _IN_FILE:
        file = fds.pop()
        message = json.loads(memory_files.read_all(file))
        os.close(file)
    return message, fds


def receive_bytes(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive one packet unparsed. b"" means that the other side is gone."""
    descriptors = array.array("i")
    try:
        data, ancillary, _, _ = sock.recvmsg(
            size, socket.CMSG_SPACE(MAX_FDS * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return b"", []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return data, list(descriptors)
