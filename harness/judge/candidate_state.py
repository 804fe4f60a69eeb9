"""Reads the parameters and buffers of a candidate's model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..wire import buffers, memory_files
from ..wire.layouts import plan_layout
from .candidate_workers import LOAD_SECONDS
from .errors import Interfered
from .exchange import device_link
from .exchange.process_bill import calling_process
from .exchange.worker_outputs import read_memory, write_memory
from .processes.worker import Worker

if TYPE_CHECKING:
    import torch


def ask(worker: Worker, key: str, like: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return present values as the process reports them. like: tensors of the same shapes, strides
    and dtypes, by the reference's names."""
    layout = plan_layout(list(like.values()))
    fd = memory_files.create("left", int(layout["bytes"]))
    try:
        worker.ask(
            "left_state", [fd], seconds=LOAD_SECONDS, key=key, layout=layout, names=list(like)
        )
        try:
            memory_files.seal(fd)
        except OSError as error:
            raise Interfered("it keeps the file of its parameters open") from error
        return dict(zip(like, buffers.read(fd, layout), strict=True))
    finally:
        os.close(fd)


def places(worker: Worker, key: str, names: Sequence[str]) -> dict[str, int]:
    """Return the addresses at which the process says that these lie; without those that are not
    contiguous, and those in device memory that it does not share with the judge."""
    answer: Any = worker.data(
        worker.ask("state_places", seconds=LOAD_SECONDS, key=key, names=list(names))
    )
    if not (
        isinstance(answer, list)
        and len(answer) == len(names)
        and all(isinstance(each, int) and 0 <= each < 1 << 63 for each in answer)
    ):
        raise Interfered("it does not say where its parameters lie")
    return {name: address for name, address in zip(names, answer, strict=True) if address}


def memory(
    worker: Worker, places: Mapping[str, int], like: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return bytes of the process on the device at each place; without what is empty or no longer
    shared."""
    found = {}
    for name, address in places.items():
        nbytes = like[name].numel() * like[name].element_size()
        if nbytes:
            with contextlib.suppress(Interfered):
                found[name] = device_link.link(worker).bytes_at(address, nbytes)
    return found


def copies(
    worker: Worker, places: Mapping[str, int], like: Mapping[str, torch.Tensor]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return for each name bytes of the judge on the device, and those of the process at its place;
    without what is empty or no longer shared."""
    import torch

    places_there = memory(worker, places, like)
    try:
        return {name: (torch.empty_like(there), there) for name, there in places_there.items()}
    except torch.OutOfMemoryError:  # compared at the end of the half alone
        return {}


def as_like(memory: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return bytes on a device as a tensor of this shape and dtype, where that one is."""
    return memory.to(like.device).view(like.dtype).view(like.shape)


def write(worker: Worker, address: int, value: torch.Tensor) -> bool:
    """Write a tensor to an address of the process, which is not asked, and return whether there was
    memory for it. See read."""
    import torch

    value = value.contiguous()
    data = value.reshape(-1).view(torch.uint8)
    if not value.nbytes:
        return True
    if worker.link is not None:
        try:
            device_link.link(worker).bytes_at(address, value.nbytes).copy_(data)
        except Interfered:  # no longer shared
            return False
        torch.cuda.synchronize()
        return True
    try:
        write_memory(calling_process(worker), [(address, memoryview(data.numpy()))])  # type: ignore[arg-type]
    except OSError:
        return False
    return True


def read(worker: Worker, address: int, like: torch.Tensor) -> torch.Tensor | None:
    """Return the contiguous tensor that lies at an address of the process, which is not asked: it
    may be stopped. The address is one of device memory where the two share such memory. None if
    there is no memory any more."""
    import torch

    value = torch.empty_like(like).contiguous()
    if worker.link is not None:
        if not value.nbytes:
            return value
        try:
            there = device_link.link(worker).bytes_at(address, value.nbytes)
        except Interfered:  # no longer shared
            return None
        value.view(-1).view(torch.uint8).copy_(there)
        return value
    memory = memoryview(value.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    try:
        read_memory(calling_process(worker), [(address, memory)] if len(memory) else [])
    except OSError:
        return None
    return value
