"""The judge's clock on a device: words that no worker sees, and events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ...wire import frames
from ...wire.stream_words import SharedWords
from ..errors import WorkerTimeout
from ..processes.worker import Worker

if TYPE_CHECKING:
    import torch

FLUSH_BYTES = 256 << 20  # more than any last-level cache of supported devices (an H200 has 60 MB)
LOOK_S = 0.002  # between two checks of a worker whose calls run


class PrivateWords:
    """Words that no worker sees, used by the judge's clock."""

    def __init__(self) -> None:
        fd = SharedWords.file()
        self.words, self.number = SharedWords(fd), 0
        os.close(fd)


@cache
def private_words() -> PrivateWords:
    """Return the private words of this judge."""
    return PrivateWords()


def wait_until(
    is_over: Callable[[], bool],
    worker: Worker,
    deadline: float,
    reply: frames.Reply | None = None,
    *,
    deaf: bool = False,
) -> frames.Reply | None:
    """Wait until `is_over`, and return the worker's reply if it comes meanwhile. A reply does not
    end the wait: the worker may be done before the judge's copy. deaf: read no message, since
    handling one would delay the moment at which the end is noticed. Raises what Worker.wait
    raises."""
    look = time.monotonic() + LOOK_S
    while not is_over():
        if (now := time.monotonic()) < look:
            continue
        look = now + LOOK_S
        if now > deadline:
            worker.kill()
            raise WorkerTimeout
        if reply is None and not deaf:
            reply = worker.poll_reply()[0]
    return reply


@cache
def clock_events() -> tuple[Any, Any, Any]:
    """Return the events before the inputs, at the start, and after the outputs."""
    import torch

    first, start, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    return first, start, last


@cache
def flush_memory() -> torch.Tensor:
    """Return memory that is written to evict the contents of the caches."""
    return allocate(FLUSH_BYTES)


def allocate(size: int) -> torch.Tensor:
    """Allocate bytes on the device."""
    import torch

    return torch.empty(max(1, size), dtype=torch.uint8, device="cuda")
