"""Messages of any size cross whole, with their descriptors."""

from __future__ import annotations

import os

import pytest

from harness.wire import frames, memory_files


@pytest.mark.parametrize("size", [1, frames.MAX_PACKET, 3 * frames.MAX_PACKET])
def test_a_message_crosses_with_its_descriptors(size: int) -> None:
    ours, theirs = frames.pair()
    sent = memory_files.from_bytes("other", b"beside it")
    before = len(os.listdir("/proc/self/fd"))
    frames.send(ours, {"text": "a" * size}, [sent])
    message, fds = frames.receive(theirs)
    assert message == {"text": "a" * size}
    assert [memory_files.read_all(fd) for fd in fds] == [b"beside it"]
    for fd in fds:
        os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(sent)
    for end in (ours, theirs):
        end.close()


def test_a_large_message_needs_no_descriptors_beside_it() -> None:
    ours, theirs = frames.pair()
    frames.send(ours, {"text": "a" * frames.MAX_PACKET})
    assert frames.receive(theirs) == ({"text": "a" * frames.MAX_PACKET}, [])
    for end in (ours, theirs):
        end.close()
