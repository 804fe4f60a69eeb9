"""The judge's side of the process from which workers are forked, see `workers.fork_server`."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace

from ...sandbox.confine import Confinement
from ...types import to_json
from ...wire import frames, memory_files
from ..errors import Refused, WorkerDied
from ..process_environment import python_command, scrubbed_environment
from .bubblewrap import outer_pid
from .freezing import parent_of
from .worker import LOG_BYTES, Sharing, Worker
from .worker_status import read_first_line

# Workers of a judge that runs as root become users in namespaces, each a different one, because the
# process limit counts all processes and threads of a user. Otherwise a candidate that starts as
# many as it may would leave none to another one of the same comparison, and a fork bomb under one
# judge would starve the others. systemd reserves these numbers for dynamic users.
FIRST_USER, USERS = 61184, 4336
# in random order, so that the number does not tell a candidate how many were started before it
_user_numbers = itertools.cycle(
    random.SystemRandom().sample(range(FIRST_USER, FIRST_USER + USERS), USERS)
)


class ForkServer:
    """Starts confined workers in about 20 ms each. Restarts itself after it died.

    allocation: use the allocator policy of every comparison; False for the allocator's defaults.
    compiled: the folder in which inductor has compiled, or will compile, what all tasks need; "" if
    no task compiles C++. wrapper: the prefix of the command (see bubblewrap). sharing: the shared
    lock of its workers' device."""

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
        self._lock = threading.Lock()

    def launch(self) -> None:
        """Start the process if it is not running, without waiting for its imports."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        # from now on `close` closes it, whatever fails
        self._sock, server_end = frames.pair()
        self._sock.settimeout(120)
        self._ready = False
        with server_end:
            self._process = subprocess.Popen(
                [
                    *self._wrapper,
                    *python_command(
                        "harness.workers",
                        "fork_server.main",
                        server_end.fileno(),
                        self._preload,
                        self._compiled,
                        scrubbed=True,
                    ),
                ],
                pass_fds=[server_end.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sys.stderr,
                cwd="/",
                start_new_session=True,
            )

    def start(self) -> None:
        """Start the process if it is not running, and wait until it is ready. Raises WorkerDied."""
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
        """Start a confined worker; for any thread. Raises Refused if the level is not available."""
        with self._lock:
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
        # for_worker: closed by the Worker object, passed_on: closed here in any case
        with contextlib.ExitStack() as for_worker, contextlib.ExitStack() as passed_on:
            judge_end, worker_end = frames.pair()
            for_worker.enter_context(judge_end)
            passed_on.enter_context(worker_end)
            status_r, status_w = os.pipe2(os.O_CLOEXEC)
            for_worker.callback(os.close, status_r)
            passed_on.callback(os.close, status_w)
            log_fd = memory_files.create("log", LOG_BYTES)
            for_worker.callback(os.close, log_fd)
            memory_files.seal(log_fd, writable=True)
            text_fd = memory_files.create("text", frames.TEXT_BYTES)
            passed_on.callback(os.close, text_fd)
            memory_files.seal(text_fd, writable=True)
            text = memory_files.map_shared(text_fd, frames.TEXT_BYTES)
            for_worker.callback(text.close)
            folder = ""
            if scratch and rules.level != "namespaces":
                folder = tempfile.mkdtemp(dir=scratch)
                for_worker.callback(shutil.rmtree, folder, ignore_errors=True)
            confinement = replace(rules, user=next_user())
            request = {
                "kind": kind,
                "confinement": to_json(confinement),
                "scratch": folder or scratch,
            }
            frames.send(sock, request, [worker_end.fileno(), log_fd, status_w, text_fd])
            passed_on.close()
            frames.receive(sock)
            pid, root = self._find_processes(read_first_line(status_r), rules)
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError as error:
                raise Refused(str(error)) from error
            for_worker.pop_all()
        return Worker(
            judge_end, text, log_fd, pidfd, status_r,
            root=root, folder=folder, server=self._process, memory_bytes=rules.memory_bytes,
            kind=kind, sharing=self._sharing,
        )  # fmt: skip

    def _find_processes(self, first: str, rules: Confinement) -> tuple[int, int]:
        """Return the pid of the process whose end ends a worker, and the pid of the process below
        which all its processes are, from the first line of its status. Raises Refused."""
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


def next_user() -> int:
    """Return a user id that no other live worker of this judge has, and hardly one of another
    judge."""
    return next(_user_numbers)
