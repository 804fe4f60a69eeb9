"""The confined build service: runs the compiler for one request, single-use like a candidate's worker."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

from .. import native
from . import buffers, host


class CompilerHost(host.Host):
    """One command: compile text into a descriptor."""

    def on_compile(
        self, fds: list[int], compiler: str, flags: list[str], limit_s: float, disassemble: bool = False
    ) -> dict[str, Any]:
        """Descriptors: source text, file for the library, file for the disassembly. Sizes and the compiler's words come back."""
        with open("/tmp/kernel.cpp", "wb") as file:
            file.write(buffers.read_all(fds[0]))
        command = native.compile_command(compiler, "/tmp/kernel.cpp", "/tmp/kernel.so", [*flags, "-fdiagnostics-color=never"])
        started = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, cwd="/tmp", timeout=limit_s, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return {"returncode": -1, "log": f"the compiler did not end within {limit_s:.0f} s", "timeout": True}
        log = done.stderr.decode(errors="replace").replace("/tmp/", "")[-40_000:]
        result: dict[str, Any] = {"returncode": done.returncode, "log": log, "seconds": time.monotonic() - started}
        if done.returncode == 0:
            result["bytes"] = _copy("/tmp/kernel.so", fds[1])
            result["listing"] = self._disassemble(fds[2]) if disassemble else 0
        return result

    def _disassemble(self, fd: int) -> int:
        listing = ["objdump", "-d", "--no-show-raw-insn", "--section=.text", "/tmp/kernel.so"]
        try:
            done = subprocess.run(listing, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return 0  # binutils missing: static facts are then unknown, which the report says
        os.write(fd, done.stdout[: 8 << 20])
        return min(len(done.stdout), 8 << 20)


def _copy(path: str, fd: int) -> int:
    with open(path, "rb") as file:
        data = file.read()
    os.ftruncate(fd, 0)
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)
    return len(data)


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    CompilerHost(sock, text_fd).serve()
