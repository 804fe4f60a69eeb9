"""The kernels that a candidate launched: what a worker records about each, and how the record
reaches the judge."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import native
from ..types import to_json

KERNELS = 64  # the most that are reported; each configuration of an autotuned kernel counts
TEXT_CHARS = 400_000  # the most of one listing


@dataclass(frozen=True)
class Captured:
    """One compiled kernel. Sizes are in bytes.

    grid: that of its first launch. constants: the values that it was specialized for. tuning: only
    the autotuner tried it. refused: why the driver would refuse to load it, "" if it loads. texts:
    by "ptx", "sass" or "amdgcn". resources: the output of cuobjdump, or of ptxas in the same form.
    block: threads by dimension, where host code sets it. binary, symbol: the build of the judge's
    service and the kernel's name in it; `shared` is then the shared memory that the launch asked
    for besides the kernel's static memory.
    """

    name: str
    num_warps: int
    num_stages: int
    num_ctas: int = 1
    shared: int = 0
    tensor: int = 0
    signature: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    grid: tuple[int, int, int] = (0, 0, 0)
    launches: int = 0
    tuning: bool = False
    refused: str = ""
    cases: tuple[str, ...] = ()
    block: tuple[int, int, int] = (0, 0, 0)
    binary: str = ""
    symbol: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    resources: str = ""


class LaunchRecorder:
    """Records launches of CUDA C++ kernels. runs: whether the launches then take place. case: the
    case whose call is recorded."""

    def __init__(self, *, runs: bool) -> None:
        self._runs = runs
        self._kernels: dict[tuple[Any, ...], Captured] = {}
        self.case = ""
        self.left_out = 0

    def note(self, launch: native.Launch) -> bool:
        """Record one launch, as the observer that `native.observe_launches` takes. Returns whether
        the launch shall take place."""
        key = (launch.image, launch.symbol, launch.block, launch.shared)
        if key not in self._kernels:
            if len(self._kernels) >= KERNELS:
                self.left_out += 1
                return self._runs
            threads = launch.block[0] * launch.block[1] * launch.block[2]
            self._kernels[key] = Captured(
                name=launch.name,
                num_warps=-(-threads // 32),
                num_stages=0,
                shared=launch.shared,
                signature={str(i): kind for i, kind in enumerate(launch.signature)},
                grid=launch.grid,
                block=launch.block,
                binary=launch.image,
                symbol=launch.symbol,
            )
        record = self._kernels[key]
        cases = record.cases if self.case in record.cases else (*record.cases, self.case)
        self._kernels[key] = replace(record, launches=record.launches + 1, cases=cases)
        return self._runs

    def kernels(self) -> list[Captured]:
        return list(self._kernels.values())


def hand_over(kernels: Sequence[Captured], fd: int) -> tuple[int, int]:
    """Write the kernels as JSON to a file of fixed size, without the longest texts if they do not
    fit. Returns (bytes written, kernels left out)."""
    entries, left_out, room = [to_json(k) for k in kernels], 0, os.fstat(fd).st_size
    data = json.dumps(entries).encode()
    while len(data) > room and entries:
        widest = max(entries, key=lambda k: sum(map(len, k["texts"].values())))
        if not widest["texts"]:
            entries.pop()
            left_out += 1
        widest["texts"] = {}
        data = json.dumps(entries).encode()
    written = 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], written)
    return len(data), left_out
