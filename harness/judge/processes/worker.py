"""The judge's side of a worker: requests with a deadline, the cause of its end, and killing it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ...wire import frames, memory_files
from ...workers import error_report
from ..errors import (
    Cancelled,
    CancelToken,
    Interfered,
    OrderEnds,
    ServerLost,
    WorkerDied,
    WorkerFailed,
    WorkerTimeout,
)
from .answers import check_range, parse, printable
from .worker_status import count_oom_kills, is_readable, own_bytes, read_status

LOG_BYTES = 256 * 1024
# the kinds that may reply "unfit" (no verdict is possible, nothing is stored), and "task"
_INTERPRETED, _REFERENCE = "interpreted", "reference"
# an answer with its descriptors, and the seconds that compilers worked for it
BuildHandler = Callable[[Any], "tuple[dict[str, Any], list[int], float]"]
MemoryHandler = Callable[[int, int, int], None]  # address and bytes in the worker, descriptor
# returns a context in which nothing is timed on the device
Sharing = Callable[["CancelToken | None"], AbstractContextManager[None]]
_DEAF = "it answers without reading its messages"


@dataclass
class Worker:
    """One worker process. Not thread-safe: one request at a time."""

    sock: socket.socket
    text: Any
    log_fd: int
    kill_fd: int  # pidfd of the process whose end ends the worker and everything it started
    status_fd: int
    cancel: CancelToken | None = None
    on_build: BuildHandler | None = None
    on_memory: MemoryHandler | None = None
    link: Any = None  # see device_link: the memory shared with the judge on a device
    build_seconds: float = 0.0  # time of compilers
    order_ends: OrderEnds | None = None  # the order for which it was killed
    commands_sent: int = 0  # a reply carries the number of its command
    root: int = 0  # pid of the process below which the worker and everything it started are
    folder: str = ""  # private, removed with the worker
    server: subprocess.Popen[bytes] | None = None  # its fork server, with which it ends
    memory_bytes: int = 0  # the most that it can map, 0 for no limit
    kind: str = ""  # of fork_server
    base_bytes: int = 0  # its own memory before it loaded anything
    sharing: Sharing | None = None  # the shared lock of its device; None for the host
    oom_kills_before: int = field(default_factory=lambda: count_oom_kills())
    _copies: list[int] = field(default_factory=list)

    def note_base(self) -> None:
        """Record its present memory, so that later memory counts as that of the loaded code."""
        self.base_bytes = own_bytes(self.root)

    @property
    def pid(self) -> int:
        """The id of the process whose end ends the worker, as this process sees it; 0 once it is
        gone."""
        with open(f"/proc/self/fdinfo/{self.kill_fd}") as file:
            return max(
                0, next((int(line.split()[1]) for line in file if line.startswith("Pid:")), 0)
            )

    def private_copies(self, *fds: int) -> list[int]:
        """Copy memory files for this worker alone, so that nothing a process can leave on a file
        besides its contents (offset, attributes, times, locks) reaches another process. Valid until
        the next call. Baselines get new copies each time too, so that both sides find their inputs
        equally warm (reusing a copy made the transfer of 160 MB 1 ms shorter on an H200)."""
        for fd in self._copies:
            os.close(fd)
        self._copies = [memory_files.copy("own", fd) for fd in fds]
        return list(self._copies)

    def ask(
        self, op: str, fds: list[int] | None = None, *, seconds: float, **arguments: Any
    ) -> frames.Reply:
        """Send a command and wait for OK. Raises WorkerFailed, WorkerDied, WorkerTimeout,
        Interfered or Cancelled."""
        with self.between_timings():
            self.send(op, fds, **arguments)
            return self.wait(frames.OK, seconds)

    def between_timings(self) -> AbstractContextManager[None]:
        """Return a context in which no other judge times on the worker's device."""
        return self.sharing(self.cancel) if self.sharing else contextlib.nullcontext()

    def send(self, op: str, fds: list[int] | None = None, **arguments: Any) -> None:
        """Send a command."""
        self.commands_sent += 1
        try:
            frames.send(self.sock, {"op": op, **arguments}, fds, wait=False)
        except BlockingIOError as error:
            raise self._interference(_DEAF) from error
        except (frames.WorkerGone, OSError) as error:
            raise self._ending() from error

    def signal_start(self) -> None:
        """Send the start signal of a burst whose inputs are on the device."""
        with contextlib.suppress(OSError):
            self.sock.send(b"go", socket.MSG_DONTWAIT)

    def wait(self, code: int, seconds: float) -> frames.Reply:
        """Return the next reply. The time of compilers does not count towards the deadline, but
        other work of the judge does, since a worker could cause any amount of it."""
        deadline = time.monotonic() + seconds
        while True:
            self._poll(deadline)
            reply, building = self._receive()
            if reply is None:
                deadline += building
                if time.monotonic() > deadline:  # a worker could send messages forever
                    self.kill()
                    raise WorkerTimeout
            elif reply.code == code:
                return reply
            else:
                raise self._interference(f"reply {reply.code} where {code} was expected")

    def poll_reply(self) -> tuple[frames.Reply | None, float]:
        """Serve a worker that is busy with a command. Returns its reply if it has arrived, and the
        seconds of compilers for a build that it ordered now. Raises what `wait` raises except
        WorkerTimeout."""
        return self._receive() if self._poll(0.0, kill=False) else (None, 0.0)

    def _receive(self) -> tuple[frames.Reply | None, float]:
        """Receive a packet. Returns a reply, or None and the seconds of compilers for a build that
        the worker ordered."""
        packet, fds = frames.receive_bytes(self.sock, 4096)
        try:
            if not packet:
                raise self._ending()
            try:
                reply = frames.Reply.unpack(packet)
                check_range(reply.values)
                if reply.code == frames.MEMORY and len(fds) == 1 and self.on_memory is not None:
                    self.on_memory(reply.values[0], reply.values[1], fds[0])
                    return None, 0.0
            except (frames.ProtocolError, Interfered) as error:
                raise self._interference(str(error)) from error
            if fds:
                raise self._interference("descriptors came with a reply")
        finally:
            for fd in fds:
                os.close(fd)
        if reply.sequence != self.commands_sent:
            raise self._interference(
                f"a reply to command {reply.sequence} where {self.commands_sent} was the last"
            )
        if reply.code == frames.BUILD and self.on_build is not None:
            return None, self._build(reply)
        if reply.code == frames.ERROR:
            kind = reply.values[0]
            name = (
                error_report.ERROR_KINDS[kind]
                if 0 <= kind < len(error_report.ERROR_KINDS)
                else "exception"
            )
            if name == "unfit" and self.kind != _INTERPRETED:
                raise self._interference(
                    "it reports that a verdict would be meaningless, which a process of this kind "
                    "cannot know"
                )
            if name == "task" and self.kind != _REFERENCE:
                raise self._interference(
                    "it reports that the task cannot be judged, but it has no task"
                )
            raise WorkerFailed(name, self.read_text(reply))
        return reply, 0.0

    def data(self, reply: frames.Reply) -> Any:
        """Return the JSON that came with a reply; untrusted if the worker is. Raises Interfered for
        anything else."""
        if not reply.text:
            return None
        try:
            return parse(self.read_text(reply))
        except Interfered as error:
            raise self._interference(str(error)) from error

    def has_message(self, seconds: float) -> bool:
        """Return whether a message arrives within the time. Raises what `wait` raises if the worker
        has ended."""
        return self._poll(time.monotonic() + seconds, kill=False)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, even if messages are unread."""
        return is_readable(self.kill_fd, 0)

    def wait_for_end(self) -> None:
        """After `kill`, wait until it and everything it started have ended."""
        is_readable(self.kill_fd, 10)

    def read_text(self, reply: frames.Reply) -> str:
        return printable(bytes(self.text[: reply.text]).decode(errors="replace"))

    def log(self) -> str:
        """Return the end of what it printed."""
        used = min(os.lseek(self.log_fd, 0, os.SEEK_CUR), LOG_BYTES)
        start = max(0, used - 8000)
        return printable(os.pread(self.log_fd, used - start, start).decode(errors="replace"))

    @property
    def log_overflowed(self) -> bool:
        """Whether it printed more than the log holds."""
        return os.lseek(self.log_fd, 0, os.SEEK_CUR) > LOG_BYTES - 4096

    def kill(self) -> None:
        """End the worker and all its descendants; does nothing if it is gone."""
        with contextlib.suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self.kill_fd, signal.SIGKILL)

    def release_device_memory(self) -> None:
        """Release what a killed worker has shared of a device."""
        if self.link is not None:
            self.link.close()
        self.link = self.on_memory = None

    def close(self) -> None:
        """Kill, wait until it and its descendants are gone, and release every descriptor."""
        self.kill()
        self.release_device_memory()
        # readable once the process, and so its whole PID namespace, has ended
        is_readable(self.kill_fd, 10)
        read_status(self.status_fd, 10.0, to_end=True)  # the end means that its watcher is done
        self.sock.close()
        for fd in (self.log_fd, self.kill_fd, self.status_fd, *self._copies):
            os.close(fd)
        self._copies.clear()
        self.text.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _poll(self, deadline: float, *, kill: bool = True) -> bool:
        """Return whether a message arrives before the deadline. If not, the worker is killed,
        unless `kill` is False."""
        poller = select.poll()
        poller.register(self.sock, select.POLLIN | select.POLLHUP)
        if self.cancel is not None:
            poller.register(self.cancel.fd, select.POLLIN)
        poller.register(self.status_fd, select.POLLIN | select.POLLHUP)
        seconds = max(0.0, deadline - time.monotonic())
        ready = {fd for fd, _ in poller.poll(seconds * 1000)}
        if self.cancel is not None and self.cancel.fd in ready:
            self.kill()
            raise Cancelled
        if self.sock.fileno() in ready:
            return True
        if not ready:
            if not kill:
                return False
            self.kill()
            raise WorkerTimeout
        raise self._ending()

    def _build(self, reply: frames.Reply) -> float:
        request = self.data(reply)
        assert self.on_build is not None
        try:
            answer, fds, seconds = self.on_build(request)
        except Interfered as error:
            raise self._interference(str(error)) from error
        except OrderEnds as error:
            self.kill()
            self.order_ends = error
            raise
        try:
            frames.send(self.sock, answer, fds, wait=False)
        except BlockingIOError as error:
            raise self._interference(_DEAF) from error
        except frames.WorkerGone as error:
            raise self._ending() from error
        finally:
            for fd in fds:
                os.close(fd)
        self.build_seconds += seconds
        return seconds

    def _interference(self, what: str) -> Interfered:
        self.kill()
        return Interfered(what)

    def _ending(self) -> Exception:
        """Return how the worker ended, as its watcher reports it."""
        if self.order_ends is not None:  # the error may have been missed when it was killed
            return self.order_ends
        status = read_status(self.status_fd, 5.0)
        self.kill()
        if self.server is not None and self.server.poll() is not None:
            return ServerLost()
        return WorkerDied.of(
            status,
            limit=self.memory_bytes,
            killed_for_memory=count_oom_kills() - self.oom_kills_before,
        )
