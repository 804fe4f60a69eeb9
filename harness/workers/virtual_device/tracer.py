"""The process that runs one CUDA C++ candidate for a device that the machine need not have: the
build service compiles the kernels, `forward` runs once for each case on host memory, and every
launch is recorded instead of executed."""

from __future__ import annotations

import os
from typing import Any

from ... import native
from ...wire import buffers, launches
from ...wire.layouts import Layout
from .. import candidate
from . import cuda_mapping


class TracerHost(candidate.CandidateHost):
    """The commands besides those of a candidate's worker: `device` before all others, `capture` for
    a case."""

    def on_device(self, fds: list[int], device: cuda_mapping.Device, target: list[Any]) -> None:
        """Install the virtual device."""
        cuda_mapping.install(device, zero=True)

    def on_load(self, fds: list[int], poison: bool = False, forks: bool = True) -> None:
        """Load the candidate as in every worker, but record launches without executing them."""
        self._recorder = launches.LaunchRecorder(runs=False)
        native.observe_launches(self._recorder.note)
        super().on_load(fds)

    def on_capture(self, fds: list[int], key: str, layout: Layout) -> None:
        """Call the case's model once with the inputs (first descriptor)."""
        self.prepared[key].call(buffers.read(fds[0], layout))


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    os.umask(0o077)
    TracerHost(sock, text_fd).serve()
