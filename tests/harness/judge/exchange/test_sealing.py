"""A memory file is sealed as soon as nobody is at its pages."""

from __future__ import annotations

import errno
import mmap
import os
import threading

import pytest

from harness.wire import memory_files


def test_who_is_at_a_page_for_a_moment_delays_the_seal() -> None:
    fd = memory_files.create("inputs", 1 << 16, fixed=False)
    writer = mmap.mmap(fd, 1 << 16)
    threading.Timer(0.2, writer.close).start()
    memory_files.seal(fd)
    with pytest.raises(PermissionError):
        os.write(fd, b"x")
    os.close(fd)


def test_a_writer_that_stays_is_an_error() -> None:
    fd = memory_files.create("inputs", 1 << 16, fixed=False)
    with mmap.mmap(fd, 1 << 16), pytest.raises(OSError, match="busy") as caught:
        memory_files.seal(fd)
    assert caught.value.errno == errno.EBUSY
    os.close(fd)
