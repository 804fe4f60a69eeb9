"""How busy the way from the host to the device is.

Copy engines work beside whatever computes, for any process, also for one that is stopped: no kernel
waits for a share of the device's time meanwhile. But the device fetches each launch from the host:
one of 4 us took 8 us on an H100 while another process copied from the host (copies to the host cost
5 % of it, copies within the device nothing).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

COPIED_BYTES, TRIES = 2 << 20, 3  # whoever copies all the time slows each of them
# Times as long as ever that such a copy may take: who shares the way with one other copy has half
# of it. Alone it took up to 1.2 times as long, but for some milliseconds now and then.
MOST_SHARE = 1.6
CALM_S = 0.1  # for which calm is waited for: what a process left may end meanwhile


class Usual:
    """The least that copies took since the judge began: that of calm moments."""

    def __init__(self) -> None:
        self._least = float("inf")

    def is_calm(self, took: float) -> bool:
        """Whether it is not much longer than the least, which it may be itself."""
        self._least = min(self._least, took)
        return took <= MOST_SHARE * self._least


def is_calm() -> bool:
    """Whether the judge's own copies to the device take as long as usual."""
    return _usual().is_calm(min(_copied_ms() for _ in range(TRIES)))


def is_calm_soon(
    calm: Callable[[], bool] = is_calm, now: Callable[[], float] = time.monotonic
) -> bool:
    """The same, once it is so or the time for it is over."""
    deadline = now() + CALM_S
    while not calm():
        if now() > deadline:
            return False
    return True


def _copied_ms() -> float:
    """By the device's clock: the host may be late."""
    there, here, begin, end = _memory()
    begin.record()
    there.copy_(here, non_blocking=True)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


@cache
def _usual() -> Usual:
    return Usual()


@cache
def _memory() -> tuple[torch.Tensor, torch.Tensor, Any, Any]:
    import torch

    there = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    here = torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=True)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    return there, here, begin, end
