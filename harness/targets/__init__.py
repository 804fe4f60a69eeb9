"""Devices: the families that candidates run on, and the architectures that kernels can be compiled
for, with or without such a device in the machine."""

from __future__ import annotations

from . import amd, cpu, cuda, framework, nvidia, nvml
from .architecture import Architecture, Binary, Facts
from .base import DeviceFamily
from .occupancy import Occupancy

FAMILIES: dict[str, DeviceFamily] = {family.NAME: family for family in (cpu, cuda)}

# by the target's name as users write it
ARCHITECTURES: dict[str, Architecture] = {
    **{f"cuda:{a.name}": a for a in nvidia.ARCHITECTURES},
    **{f"hip:{a.name}": a for a in amd.ARCHITECTURES},
}

__all__ = [
    "ARCHITECTURES",
    "FAMILIES",
    "Architecture",
    "Binary",
    "DeviceFamily",
    "Facts",
    "Occupancy",
    "cpu",
    "cuda",
    "framework",
    "nvml",
]
