"""The GPUs of this machine and their users. Creates no CUDA context, so that a process which only
assigns work can use it too."""

from __future__ import annotations

from dataclasses import replace

from ...targets import cuda
from ...types import Device
from .locks import DeviceLock


def list_devices() -> tuple[Device, ...]:
    """Return every GPU that CUDA_VISIBLE_DEVICES leaves visible, and whether something is being
    timed on it; () without a driver."""
    return tuple(replace(d, measuring=DeviceLock(d.uuid).is_taken) for d in cuda.devices())
