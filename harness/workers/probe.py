"""The process that probes a device with a small computation of known result. It loads no code of
tasks or candidates."""

from __future__ import annotations

import os
import socket
from typing import Any

from . import host

COUNT, SIDE = 2048, 64


def expected_values() -> tuple[int, int]:
    """Return the sum of the squares below COUNT, and the sum of a product of two matrices of
    ones."""
    return (COUNT - 1) * COUNT * (2 * COUNT - 1) // 6, SIDE**3


class ProbeHost(host.Host):
    """One command: `probe`."""

    def on_probe(self, fds: list[int], device: str) -> tuple[Any, tuple[int, ...]]:
        """Compute `expected_values` on the device, by integer and by floating-point units. values:
        the two results."""
        import torch

        numbers = torch.arange(COUNT, dtype=torch.int64, device=device)
        ones = torch.ones(SIDE, SIDE, device=device)
        return None, (int((numbers * numbers).sum()), int((ones @ ones).sum()))


def serve(sock: socket.socket, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    ProbeHost(sock, text_fd).serve()
