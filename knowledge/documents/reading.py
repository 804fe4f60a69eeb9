"""Documents as text: plain text here, HTML and PDF in a separate process with a time limit."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from .files import read
from .formats import MAX_TEXT, Unreadable

FILE_S = 300.0  # the longest time one file may take
_PROGRAM = (
    "import sys; sys.path[:0] = {path!r}; from knowledge.documents.extractor import main; main()"
)
_CHUNK = 1 << 20


class OutOfTime(Exception):
    """The deadline passed while a file was being read; nothing is known about it."""


class DocumentReader:
    """A context manager that reads files one after another. Its process is started for the first
    file that needs it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def text(self, path: Path, kind: str, deadline: float) -> str:
        """Return a file's text. kind: "text", "html", "pdf". deadline: on the monotonic clock.
        Raises Unreadable with the reason, and OutOfTime."""
        if kind == "text":
            try:
                return _decoded(read(path))[:MAX_TEXT]
            except OSError as error:
                raise Unreadable(error.strerror or str(error)) from error
        own = time.monotonic() + FILE_S
        answer = self._ask({"path": str(path), "kind": kind}, min(own, deadline))
        if answer is None:
            if deadline < own:
                raise OutOfTime
            raise Unreadable(f"reading it took longer than {FILE_S:.0f} s")
        if "problem" in answer:
            raise Unreadable(answer["problem"])
        return answer["text"]

    def _ask(self, order: dict[str, str], until: float) -> dict[str, str] | None:
        """The answer, None when the time is over. The process is ended in that case, and if it
        died."""
        process = self._process = self._process or _start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            self._end()
            raise Unreadable("the process that reads such files cannot be started") from None
        line = _line(process, until)
        if line is None or not line.endswith(b"\n"):
            self._end()
            if line is None:
                return None
            raise Unreadable(
                "the process that read it died (too much memory, or a bug in the library)"
            )
        answer: dict[str, str] = json.loads(line)
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> subprocess.Popen[bytes]:
    environment = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "LC_ALL", "TMPDIR")
        if name in os.environ
    }
    path = [entry or os.getcwd() for entry in sys.path]
    command = [sys.executable, "-P", "-c", _PROGRAM.format(path=path)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _line(process: subprocess.Popen[bytes], until: float) -> bytes | None:
    """The output of the process up to the end of a line or of the process; None when the time is
    over."""
    assert process.stdout is not None
    said = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            if not ready.select(max(0.0, until - time.monotonic())):
                return None
            part = os.read(process.stdout.fileno(), _CHUNK)
            if not part:
                break
            said += part
    return bytes(said)


def _decoded(data: bytes) -> str:
    """Text in UTF-8, or UTF-16 with a byte order mark; invalid bytes become U+FFFD."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")
