"""The judge's side of its workers: start, ask with a deadline, find out how one ended, kill."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...sandbox.confine import Confinement
from ...types import to_json
from ...wire import frames, memory_files
from ...workers import error_report
from ..errors import (
    Cancelled,
    CancelToken,
    Interfered,
    OrderEnds,
    Refused,
    ServerLost,
    WorkerDied,
    WorkerFailed,
    WorkerTimeout,
)
from ..process_environment import scrubbed_environment
from .answers import in_range, parsed, printable
from .bubblewrap import outer_pid
from .freezing import parent_of
from .peak_memory import own_bytes
from .users import next_user

LOG_BYTES = 256 * 1024
# the kind that may say of a candidate that nothing can be said here: it is then not stored
_INTERPRETED, _REFERENCE = "interpreted", "reference"


# an answer with its descriptors, and the seconds that compilers worked for it
BuildHandler = Callable[[Any], "tuple[dict[str, Any], list[int], float]"]
MemoryHandler = Callable[[int, int, int], None]  # address and bytes in the worker, descriptor
# of a device: a context in which nobody times anything there
Sharing = Callable[["CancelToken | None"], AbstractContextManager[None]]
_DEAF = "it answers without reading what it is told"


def harness_root() -> str:
    """The folder that holds this `harness` and nothing else that could be imported by accident."""
    return str(Path(__file__).resolve().parents[3])


def command(module: str, function: str, *arguments: object) -> list[str]:
    """A Python command that runs a function of ours in isolated mode, whatever the current folder
    holds."""
    call = f"{function}({', '.join(map(repr, arguments))})"
    code = (
        f"import sys; sys.path.insert(0, {harness_root()!r}); from {module} import "
        f"{function.split('.')[0]}; {call}"
    )
    return [sys.executable, "-I", "-c", code]


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
    sent: int = 0  # commands; a reply carries the number of its command
    root: int = 0  # pid of the process below which the worker and everything it started are
    folder: str = ""  # private, removed with the worker
    server: subprocess.Popen[bytes] | None = None  # that it was forked from, and dies with
    memory_bytes: int = 0  # that it can map, 0 for any
    kind: str = ""  # of fork_server
    base_bytes: int = 0  # that it held for itself before it got what it runs
    sharing: Sharing | None = None  # of the device that it works on; None where that is the host
    killed_before: int = field(default_factory=lambda: _killed_for_memory())
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

    def own(self, *fds: int) -> list[int]:
        """Memory files with these contents for this worker alone: whatever a process can leave on a
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
        with self.beside():
            self.send(op, fds, **arguments)
            return self.wait(frames.OK, seconds)

    def beside(self) -> AbstractContextManager[None]:
        """For what it does on a device that others may be timed on: a context in which they are
        not."""
        return self.sharing(self.cancel) if self.sharing else contextlib.nullcontext()

    def send(self, op: str, fds: list[int] | None = None, **arguments: Any) -> None:
        """Send a command."""
        self.sent += 1
        try:
            frames.send(self.sock, {"op": op, **arguments}, fds, wait=False)
        except BlockingIOError as error:
            raise self._interfered(_DEAF) from error
        except (frames.WorkerGone, OSError) as error:
            raise self._ended() from error

    def go(self, inputs: list[int]) -> None:
        """The start signal of a burst, with its inputs."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.sock, [b"go"], inputs, socket.MSG_DONTWAIT)

    def wait(self, wanted: int, seconds: float) -> frames.Reply:
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
            elif reply.code == wanted:
                return reply
            else:
                raise self._interfered(f"reply {reply.code} where {wanted} was due")

    def attend(self) -> tuple[frames.Reply | None, float]:
        """Look after a worker that is busy with a command: its reply if it is there already, and
        the seconds of compilers for a build which it asked for now. Raises what `wait` raises, but
        for its deadline."""
        return self._receive() if self._poll(0.0, kill=False) else (None, 0.0)

    def _receive(self) -> tuple[frames.Reply | None, float]:
        """A reply; or None and the seconds of compilers for a build that it had asked for."""
        packet, fds = frames.receive_bytes(self.sock, 4096)
        try:
            if not packet:
                raise self._ended()
            try:
                reply = frames.Reply.unpack(packet)
                in_range(reply.values)
                if reply.code == frames.MEMORY and len(fds) == 1 and self.on_memory is not None:
                    self.on_memory(reply.values[0], reply.values[1], fds[0])
                    return None, 0.0
            except (frames.ProtocolError, Interfered) as error:
                raise self._interfered(str(error)) from error
            if fds:
                raise self._interfered("descriptors came with a reply")
        finally:
            for fd in fds:
                os.close(fd)
        if reply.sequence != self.sent:
            raise self._interfered(
                f"a reply to command {reply.sequence} where {self.sent} was the last"
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
                raise self._interfered(
                    "it says that a verdict here would be worth nothing, which no process of this "
                    "kind finds out"
                )
            if name == "task" and self.kind != _REFERENCE:
                raise self._interfered(
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
            return parsed(self.read_text(reply))
        except Interfered as error:
            raise self._interfered(str(error)) from error

    def speaks(self, seconds: float) -> bool:
        """Whether it has something to say within the time. Raises what `wait` raises when it has
        ended."""
        return self._poll(time.monotonic() + seconds, kill=False)

    @property
    def ended(self) -> bool:
        """Whether it has ended, whatever it still has to say."""
        return _readable(self.kill_fd, 0)

    def gone(self) -> None:
        """Wait until it has ended, with what it started, after `kill`."""
        _readable(self.kill_fd, 10)

    def read_text(self, reply: frames.Reply) -> str:
        return printable(bytes(self.text[: reply.text]).decode(errors="replace"))

    def log(self) -> str:
        """The end of what it printed."""
        used = min(os.lseek(self.log_fd, 0, os.SEEK_CUR), LOG_BYTES)
        start = max(0, used - 8000)
        return printable(os.pread(self.log_fd, used - start, start).decode(errors="replace"))

    @property
    def flooded(self) -> bool:
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
        _readable(self.kill_fd, 10)
        _read_status(self.status_fd, 10.0, to_end=True)  # whoever waited for it has cleaned up
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
        left = max(0.0, deadline - time.monotonic())
        ready = {fd for fd, _ in poller.poll(left * 1000)}
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
        raise self._ended()

    def _build(self, reply: frames.Reply) -> float:
        request = self.data(reply)
        assert self.on_build is not None
        try:
            answer, fds, seconds = self.on_build(request)
        except Interfered as error:
            raise self._interfered(str(error)) from error
        except OrderEnds as error:
            self.kill()
            self.order_ends = error
            raise
        try:
            frames.send(self.sock, answer, fds, wait=False)
        except BlockingIOError as error:
            raise self._interfered(_DEAF) from error
        except frames.WorkerGone as error:
            raise self._ended() from error
        finally:
            for fd in fds:
                os.close(fd)
        self.build_seconds += seconds
        return seconds

    def _interfered(self, what: str) -> Interfered:
        self.kill()
        return Interfered(what)

    def _ended(self) -> Exception:
        """How the worker ended, from the process that waited for it."""
        if self.order_ends is not None:  # nobody may have listened when it was killed
            return self.order_ends
        ending = _read_status(self.status_fd, 5.0)
        self.kill()
        if self.server is not None and self.server.poll() is not None:
            return ServerLost()
        return WorkerDied.of(
            ending,
            limit=self.memory_bytes,
            killed_for_memory=_killed_for_memory() - self.killed_before,
        )


def _readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read, or an end, before the time is over. Unlike select() for
    any descriptor: input sets are many."""
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(seconds * 1000))


def _read_status(fd: int, seconds: float, *, to_end: bool = False) -> dict[str, list[int]]:
    """What `watcher.watch` reported: {"M": [bytes]}, {"S": [wait status, peak bytes]}."""
    data, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _readable(fd, max(0.0, deadline - time.monotonic())):
            break
        part = os.read(fd, 4096)
        data += part
        if not part or (b"S " in data and not to_end):
            break
    lines = [line.split() for line in data.decode(errors="replace").splitlines()]
    return {words[0]: [int(w) for w in words[1:]] for words in lines if words and words[0] in "MS"}


def _killed_for_memory() -> int:
    """How many processes the kernel has killed for want of memory since it started."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/vmstat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


class ForkServer:
    """Starts confined workers in about 20 ms each. Restarted by itself when it died.

    allocation: under the allocator policy of every comparison; False for the allocator's defaults.
    compiled: folder in which inductor has compiled, or will compile, what all tasks need; "" where
    none will compile C++. wrapper: what stands before the command (see bubblewrap). sharing: of the
    device that its workers work on."""

    def __init__(
        self,
        preload: list[str],
        *,
        allocation: bool = True,
        environment: dict[str, str] | None = None,
        compiled: str = "",
        wrapper: Sequence[str] = (),
        sharing: Sharing | None = None,
    ) -> None:
        self._preload, self._compiled, self._wrapper = preload, compiled, wrapper
        self._sharing = sharing
        self._environment = {**scrubbed_environment(allocation=allocation), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._ready = False
        self._asking = threading.Lock()

    def launch(self) -> None:
        """Start the process if it is not running, without waiting until it has imported
        everything."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        # closed with this from now on, whatever fails
        self._sock, theirs = frames.pair()
        self._sock.settimeout(120)
        self._ready = False
        with theirs:
            self._process = subprocess.Popen(
                [
                    *self._wrapper,
                    *command(
                        "harness.workers",
                        "fork_server.main",
                        theirs.fileno(),
                        self._preload,
                        self._compiled,
                    ),
                ],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sys.stderr,
                cwd="/",
                start_new_session=True,
            )

    def start(self) -> None:
        """Start the process if it is not running, and wait for it. Raises WorkerDied with what it
        printed."""
        self.launch()
        if self._ready:
            return
        assert self._sock is not None
        try:
            ready, _ = frames.receive(self._sock)
        except (frames.WorkerGone, OSError) as error:
            self.close()
            raise WorkerDied(None, 1) from error
        self.tasks, self._ready = int(ready["tasks"]), True

    def worker(self, kind: str, rules: Confinement, scratch: str = "") -> Worker:
        """A new confined worker, for any thread. Raises Refused if the level cannot be entered."""
        with self._asking:
            for attempt in (1, 2):
                self.start()
                try:
                    return self._worker(kind, rules, scratch)
                except (frames.WorkerGone, OSError):
                    self.close()
                    if attempt == 2:
                        raise
            raise AssertionError

    def _worker(self, kind: str, rules: Confinement, scratch: str) -> Worker:
        if (sock := self._sock) is None:  # closed by another thread
            raise frames.WorkerGone("closed")
        # kept: what the worker's object closes, passed on: what is closed here in any case
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed_on:
            ours, theirs = frames.pair()
            kept.enter_context(ours)
            passed_on.enter_context(theirs)
            status_r, status_w = os.pipe2(os.O_CLOEXEC)
            kept.callback(os.close, status_r)
            passed_on.callback(os.close, status_w)
            log_fd = memory_files.create("log", LOG_BYTES)
            kept.callback(os.close, log_fd)
            memory_files.seal(log_fd, writable=True)
            text_fd = memory_files.create("text", frames.TEXT_BYTES)
            passed_on.callback(os.close, text_fd)
            memory_files.seal(text_fd, writable=True)
            text = memory_files.map_shared(text_fd, frames.TEXT_BYTES)
            kept.callback(text.close)
            folder = ""
            if scratch and rules.level != "namespaces":
                folder = tempfile.mkdtemp(dir=scratch)
                kept.callback(shutil.rmtree, folder, ignore_errors=True)
            own = replace(rules, user=next_user())
            request = {"kind": kind, "confinement": to_json(own), "scratch": folder or scratch}
            frames.send(sock, request, [theirs.fileno(), log_fd, status_w, text_fd])
            passed_on.close()
            frames.receive(sock)
            pid, root = self._arrived(_first_line(status_r), rules)
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError as error:
                raise Refused(str(error)) from error
            kept.pop_all()
        return Worker(
            ours, text, log_fd, pidfd, status_r,
            root=root, folder=folder, server=self._process, memory_bytes=rules.memory_bytes,
            kind=kind, sharing=self._sharing,
        )  # fmt: skip

    def _arrived(self, first: str, rules: Confinement) -> tuple[int, int]:
        """The pid of the process whose death ends a worker, and of that below which all of it is,
        from the first line of its status. Raises Refused."""
        if not first.startswith("P "):
            raise Refused(first.removeprefix("E ") or "the worker ended before it was confined")
        pid = int(first[2:])
        if self._wrapper and self._process is not None:
            pid = outer_pid(self._process.pid, pid)
        # without a namespace orphans go to the worker's parent
        root = pid if rules.level == "namespaces" else parent_of(pid)
        if not pid or not root:
            raise Refused("the worker ended at once")
        return pid, root

    def close(self) -> None:
        """End the server and, through their parent-death signal, its workers."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _first_line(fd: int) -> str:
    data = b""
    while not data.endswith(b"\n") and _readable(fd, 20):
        part = os.read(fd, 1)
        if not part:
            break
        data += part
    return data.decode(errors="replace").strip()
