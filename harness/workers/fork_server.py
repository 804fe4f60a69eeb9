"""The fork server: an interpreter with torch imported, from which confined workers are forked. It
never reads a task or a candidate."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

from ..sandbox import confine
from ..types import from_json
from ..wire import frames
from . import candidate, compile_cache, compiler, operators, placement, probe, reference
from .virtual_device import capture, interpreter, tracer

_KINDS = {
    "candidate": candidate.serve,
    "compiler": compiler.serve,
    "interpreted": interpreter.serve,
    "capture": capture.serve,
    "probe": probe.serve,
    "reference": reference.serve,
    "traced": tracer.serve,
}


def main(fd: int, preload: list[str], compiled_folder: str) -> None:
    """Serve until the judge closes the socket. Each request is {"kind", "confinement", "scratch"}
    with descriptors of worker socket, log, status pipe and text buffer; the answer is {"pid"}.
    compiled_folder: see compile_cache.warm_up, "" for none."""
    sock = socket.socket(fileno=fd)
    for name in preload:
        __import__(name)
    if "torch" in preload:
        _warm()
    if "triton" in preload:
        compile_cache.warm_up_triton()
    if compiled_folder:
        compile_cache.warm_up(compiled_folder)
    frames.send(
        sock,
        {
            "ready": True,
            "tasks": len(os.listdir("/proc/self/task")),
            "python": sys.version.split()[0],
        },
    )
    while True:
        try:
            request, fds = frames.receive(sock)
        except frames.WorkerGone:
            return
        _reap()
        pid = os.fork()
        if pid == 0:
            _child(sock, request, fds)
        for descriptor in fds:
            os.close(descriptor)
        frames.send(sock, {"pid": pid})


def _warm() -> None:
    """Load what every candidate needs, so that each child starts with it. The process must stay
    single-threaded."""
    import torch

    torch.set_num_threads(1)
    with operators.Recorder():  # imports torch._dynamo behind the scenes, which takes half a second
        # makes torch detect the processor, which a candidate's /proc may not show
        torch.nn.Linear(2, 2)(torch.ones(1, 2))


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _child(sock: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    """Confine the child and serve one worker; never returns."""
    worker, log, status, text = fds
    try:
        signal.set_wakeup_fd(-1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if request.get("scratch"):
            os.chdir(request["scratch"])
        rules = from_json(confine.Confinement, request["confinement"])
        try:
            confine.enter(rules, status, [worker, text])
        except OSError as error:
            os.write(status, f"E {error}\n".encode()[:500])
            os._exit(70)
        if rules.devices:
            placement.enable_devices()
        _KINDS[request["kind"]](socket.socket(fileno=worker), text)
        os._exit(0)
    except SystemExit as error:  # the candidate's own
        os._exit(error.code if isinstance(error.code, int) else 1)
    except BaseException:  # nothing may return into the fork server's loop
        os._exit(71)
