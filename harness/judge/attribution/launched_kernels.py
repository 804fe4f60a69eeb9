"""The kernels that a candidate's process launched: read from it, and combined with the build
service's listings of their binaries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ...targets import Architecture, Binary
from ...targets.cubin import own_shared
from ...wire import memory_files
from ...wire.launches import TEXT_CHARS, Captured
from ..processes import answers
from ..processes.builds import BuildRecord
from ..processes.worker import Worker
from ..stage_context import StageContext

RESULT_BYTES = 32 << 20


def collect(context: StageContext, worker: Worker, seconds: float) -> tuple[list[Captured], int]:
    """Return (kernels, number left out) as the candidate's process reports them."""
    fd = memory_files.create("kernels", RESULT_BYTES)
    memory_files.seal(fd, writable=True)
    try:
        reply = context.guard(
            "collecting", worker, lambda: worker.ask("collect", [fd], seconds=seconds)
        )
        size, left_out = reply.values[:2]
        return context.guard(
            "collecting",
            worker,
            lambda: answers.read_kernels(os.pread(fd, max(0, min(size, RESULT_BYTES)), 0)),
        ), left_out
    finally:
        os.close(fd)


def join_listings(
    kernels: Sequence[Captured], builds: Sequence[BuildRecord], architecture: Architecture
) -> list[Captured]:
    """Add listings, registers and shared memory of the built binaries to kernels of load_cuda.
    Kernels without a build are left out."""
    binaries = {b.identity: b.product.kernels for b in builds if b.ok and not b.on_host}
    results = []
    for kernel in kernels:
        text = binaries.get(kernel.binary, {}).get(kernel.symbol)
        if text is None:
            continue
        texts = {
            kind: body[:TEXT_CHARS]
            for kind, body in (("ptx", text.ptx), ("sass", text.sass))
            if body
        }
        result = replace(
            kernel,
            texts=texts,
            resources=text.resources,
            shared=kernel.shared + own_shared(text.resources),
        )
        results.append(replace(result, refused=_refusal(result, architecture)))
    return results


def _refusal(kernel: Captured, architecture: Architecture) -> str:
    """Return why the driver would not launch the kernel, "" if it would."""
    occupancy = architecture.read(
        Binary(max(1, kernel.num_warps), kernel.shared, 0, {}, kernel.resources)
    ).occupancy
    if occupancy.blocks:
        return ""
    demand = f"a block of {kernel.num_warps} warps with {kernel.shared} bytes of shared memory"
    return (
        f"too many resources requested for launch: {demand} ({kernel.resources}) does not fit a "
        f"multiprocessor: {occupancy.limiter}"
    )
