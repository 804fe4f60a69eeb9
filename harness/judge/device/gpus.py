"""The GPUs of this machine, with who is on them. Creates no CUDA context, so a process that only
assigns work may ask, too."""

from __future__ import annotations

from dataclasses import replace

from ...targets import cuda
from ...types import Device
from .locks import DeviceLock


def list_devices() -> tuple[Device, ...]:
    """Every GPU that CUDA_VISIBLE_DEVICES leaves, and whether something is being timed on it; empty
    without a driver."""
    return tuple(replace(d, measuring=DeviceLock(d.uuid).is_taken) for d in cuda.devices())
