"""The judge's side of its workers: ask with a deadline, find out how one ended, kill."""

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
# the kind that may say of a candidate that nothing can be said here: it is then not stored
_INTERPRETED, _REFERENCE = "interpreted", "reference"
# an answer with its descriptors, and the seconds that compilers worked for it
BuildHandler = Callable[[Any], "tuple[dict[str, Any], list[int], float]"]
MemoryHandler = Callable[[int, int, int], None]  # address and bytes in the worker, descriptor
# of a device: a context in which nobody times anything there
Sharing = Callable[["CancelToken | None"], AbstractContextManager[None]]
_DEAF = "it answers without reading what it is told"


@dataclass
class Worker:
    """One worker process. Not thread-safe: one request at a time."""

    sock: socket.socket
    text: Any
    log_fd: int
    kill_fd: int  # pidfd of the process whose death ends the worker and everything it started
    status_fd: int
    cancel: CancelToken | None = None
    on_build: BuildHandler | None = None
    on_memory: MemoryHandler | None = None
    link: Any = None  # see device_link: what it shares with the judge on a device
    build_seconds: float = 0.0  # of compilers
    order_ends: OrderEnds | None = None  # why it was killed
    commands_sent: int = 0  # commands; a reply carries the number of its command
    root: int = 0  # pid of the process below which the worker and everything it started are
    folder: str = ""  # private, removed with the worker
    server: subprocess.Popen[bytes] | None = None  # that it was forked from, and dies with
    memory_bytes: int = 0  # that it can map, 0 for any
    kind: str = ""  # of fork_server
    base_bytes: int = 0  # that it held for itself before it got what it runs
    sharing: Sharing | None = None  # of the device that it works on; None where that is the host
    oom_kills_before: int = field(default_factory=lambda: count_oom_kills())
    _copies: list[int] = field(default_factory=list)

    def note_base(self) -> None:
        """What it holds from now on counts as its own."""
        self.base_bytes = own_bytes(self.root)

    @property
    def pid(self) -> int:
        """Of the process whose death ends the worker, as this process counts; 0 once it is gone."""
        with open(f"/proc/self/fdinfo/{self.kill_fd}") as file:
            return max(
                0, next((int(line.split()[1]) for line in file if line.startswith("Pid:")), 0)
            )

    def private_copies(self, *fds: int) -> list[int]:
        """Copy memory files for this worker alone: whatever a process can leave on a
        file besides what it holds (its offset, attributes, times, locks) reaches no other one.
        Valid until the next call. Baselines get copies, too, and each time new ones: both sides of
        a comparison find their inputs as warm (a copy that served again made handing over 160 MB 1
        ms shorter on an H200)."""
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
        """For what it does on a device that others may be timed on: a context in which they are
        not."""
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

    def signal_start(self, inputs: list[int]) -> None:
        """The start signal of a burst, with its inputs."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.sock, [b"go"], inputs, socket.MSG_DONTWAIT)

    def wait(self, code: int, seconds: float) -> frames.Reply:
        """The next reply; the time of compilers does not count, but all else that the judge does
        for a worker: it could give it as much to do as it likes."""
        deadline = time.monotonic() + seconds
        while True:
            self._poll(deadline)
            reply, building = self._receive()
            if reply is None:
                deadline += building
                if time.monotonic() > deadline:  # it may have something to say for ever
                    self.kill()
                    raise WorkerTimeout
            elif reply.code == code:
                return reply
            else:
                raise self._interference(f"reply {reply.code} where {code} was due")

    def poll_reply(self) -> tuple[frames.Reply | None, float]:
        """Look after a worker that is busy with a command: its reply if it is there already, and
        the seconds of compilers for a build which it asked for now. Raises what `wait` raises, but
        for its deadline."""
        return self._receive() if self._poll(0.0, kill=False) else (None, 0.0)

    def _receive(self) -> tuple[frames.Reply | None, float]:
        """A reply; or None and the seconds of compilers for a build that it had asked for."""
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
                    "it says that a verdict here would be worth nothing, which no process of this "
                    "kind finds out"
                )
            if name == "task" and self.kind != _REFERENCE:
                raise self._interference(
                    "it says that the task cannot be judged, and has no task to say it of"
                )
            raise WorkerFailed(name, self.read_text(reply))
        return reply, 0.0

    def data(self, reply: frames.Reply) -> Any:
        """The JSON that came with a reply (untrusted where the worker is). Raises Interfered if it
        is none."""
        if not reply.text:
            return None
        try:
            return parse(self.read_text(reply))
        except Interfered as error:
            raise self._interference(str(error)) from error

    def has_message(self, seconds: float) -> bool:
        """Whether it has something to say within the time. Raises what `wait` raises when it has
        ended."""
        return self._poll(time.monotonic() + seconds, kill=False)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, whatever it still has to say."""
        return is_readable(self.kill_fd, 0)

    def wait_for_end(self) -> None:
        """Wait until it has ended, with what it started, after `kill`."""
        is_readable(self.kill_fd, 10)

    def read_text(self, reply: frames.Reply) -> str:
        return printable(bytes(self.text[: reply.text]).decode(errors="replace"))

    def log(self) -> str:
        """The end of what it printed."""
        used = min(os.lseek(self.log_fd, 0, os.SEEK_CUR), LOG_BYTES)
        start = max(0, used - 8000)
        return printable(os.pread(self.log_fd, used - start, start).decode(errors="replace"))

    @property
    def log_overflowed(self) -> bool:
        """Whether it printed more than the log holds."""
        return os.lseek(self.log_fd, 0, os.SEEK_CUR) > LOG_BYTES - 4096

    def kill(self) -> None:
        """End the worker and all its descendants; harmless when it is gone."""
        with contextlib.suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self.kill_fd, signal.SIGKILL)

    def close(self) -> None:
        """Kill, wait until it and its descendants are gone, and release every descriptor."""
        self.kill()
        self.link = self.on_memory = None
        # readable once the process, and so its whole PID namespace, has ended
        is_readable(self.kill_fd, 10)
        read_status(self.status_fd, 10.0, to_end=True)  # whoever waited for it has cleaned up
        self.sock.close()
        for fd in (self.log_fd, self.kill_fd, self.status_fd, *self._copies):
            os.close(fd)
        self._copies.clear()
        self.text.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _poll(self, deadline: float, *, kill: bool = True) -> bool:
        """Whether the worker has something to say within the time there is; if not it is killed,
        unless it may be silent."""
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
        """How the worker ended, from the process that waited for it."""
        if self.order_ends is not None:  # nobody may have listened when it was killed
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
