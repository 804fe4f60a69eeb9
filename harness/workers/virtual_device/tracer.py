"""The process that runs one CUDA C++ candidate for a device that need not be here: kernels are
built for it by the build service, `forward` runs once for each case on host memory, and every
launch is noted instead of being made."""

from __future__ import annotations

import os
from typing import Any

from ... import native
from ...wire import buffers, launches
from ...wire.layouts import Layout
from .. import candidate
from . import cuda_mapping


class TracerHost(candidate.CandidateHost):
    """Commands besides those of a candidate's worker: `device` before everything else, `capture`
    for a case."""

    def on_device(self, fds: list[int], device: cuda_mapping.Device, target: list[Any]) -> None:
        """What programs that ask about a device are told."""
        cuda_mapping.install(device, zero=True)

    def on_load(self, fds: list[int], poison: bool = False) -> None:
        """As everywhere, and no launch happens."""
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
