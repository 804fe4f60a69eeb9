"""A real Chroma server as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

START_S = 60.0


class ChromaServer:
    """`chroma run` over one folder. A context manager; killed at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ChromaServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it answers."""
        program = "from chromadb.cli.cli import app; app()"
        command = [sys.executable, "-c", program, "run", "--host", "127.0.0.1"]
        command += ["--path", str(self._folder / "data"), "--port", str(self.port)]
        # a file, since a server whose pipe nobody reads stands still
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + START_S
        while not self._answers():
            said = (self._folder / "server.log").read_text(errors="replace")[-2000:]
            assert self._process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/api/v2/heartbeat", timeout=5).is_success
        except httpx2.HTTPError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It takes connections and answers nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)
