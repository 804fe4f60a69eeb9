"""NVIDIA's management library through ctypes: the GPUs, their users and their state.

The only module that lists GPUs. It creates no CUDA context, and every query returns an empty or
unknown value where the library is missing. Structures and constants are those of nvml.h (driver 450
and newer). KEVOLVE_NVML names the library where the loader does not find it (WSL, NixOS).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from .. import settings

_SUCCESS, _TOO_SMALL, _UNKNOWN = 0, 7, (1 << 64) - 1
_SM_CLOCK, _GPU_TEMPERATURE = 1, 0

# the nvmlClocksThrottleReason* values that make a kernel slower than the device allows. Idle,
# application clocks, sync boost and display clocks are settings, not incidents.
THROTTLING = {
    0x04: "the power cap (software)",
    0x08: "a hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "the power brake",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU. index: as nvidia-smi counts. arch: e.g. sm_90. minor: the N of /dev/nvidiaN, None if
    unknown."""

    index: int
    uuid: str
    name: str
    arch: str
    memory_bytes: int
    minor: int | None = None


@dataclass(frozen=True)
class GpuState:
    """The state of a GPU at one moment. processes: compute processes by id (as this process sees
    ids) with the bytes they hold, None where the driver does not report them. held_bytes: memory in
    use by none of them, None where it cannot be computed."""

    used_bytes: int = 0
    processes: dict[int, int | None] = field(default_factory=dict)
    held_bytes: int | None = None
    sm_mhz: int | None = None
    temperature: int | None = None
    throttled: tuple[str, ...] = ()


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves visible, in its order. Numbers count as
    nvidia-smi does."""
    library = _library()
    if library is None:
        return ()
    handles = (
        library.handle(index) for index in range(library.number("nvmlDeviceGetCount_v2") or 0)
    )
    all_gpus = [
        library.gpu(index, handle) for index, handle in enumerate(handles) if handle is not None
    ]
    return visible(all_gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(all_gpus: Sequence[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs that a value of CUDA_VISIBLE_DEVICES leaves visible. As in CUDA, an entry
    that names no GPU also hides all that follow."""
    if setting is None:
        return tuple(all_gpus)
    selection: list[Gpu] = []
    for entry in setting.split(","):
        text = entry.strip()
        named = [
            g
            for g in all_gpus
            if (text == str(g.index) if text.isdigit() else text != "" and g.uuid.startswith(text))
        ]
        if len(named) != 1 or named[0] in selection:
            break
        selection += named
    return tuple(selection)


def state(uuid: str) -> GpuState:
    """Read the state of one GPU, as far as the driver reports it."""
    library = _library()
    handle = library.by_uuid(uuid) if library is not None else None
    return library.state(handle) if library is not None and handle is not None else GpuState()


def used_bytes_reader(uuid: str) -> Callable[[], int] | None:
    """Return a quick function (10 us) that reads how many bytes of a GPU are in use by anybody;
    None where the driver does not report it."""
    library = _library()
    handle = library.by_uuid(uuid) if library is not None else None
    if library is None or handle is None or not library.used_bytes(handle):
        return None
    return partial(library.used_bytes, handle)


def driver() -> str:
    """Return the driver's version, "" if unknown."""
    library = _library()
    return library.text("nvmlSystemGetDriverVersion") if library is not None else ""


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t"""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which nvmlDeviceGetComputeRunningProcesses_v3 fills"""

    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class _Library:
    """The initialized library. A query that the driver refuses returns None or ""."""

    def __init__(self, path: str) -> None:
        """Load the library. Raises OSError where it or its driver is missing."""
        self._library = ctypes.CDLL(path)
        if self._call("nvmlInit_v2") != _SUCCESS:
            raise OSError(f"{path} finds no driver")

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._library, name, None)
        return -1 if function is None else int(function(*arguments))

    def number(self, name: str, *arguments: Any) -> int | None:
        """Call a function that writes one unsigned number to its last argument."""
        value = c_uint()
        return value.value if self._call(name, *arguments, byref(value)) == _SUCCESS else None

    def text(self, name: str, *arguments: Any) -> str:
        """Call a function whose last arguments are (char*, length), and return the text."""
        buffer = ctypes.create_string_buffer(96)
        status = self._call(name, *arguments, buffer, c_uint(len(buffer)))
        return buffer.value.decode(errors="replace") if status == _SUCCESS else ""

    def handle(self, index: int) -> c_void_p | None:
        handle = c_void_p()
        return (
            handle
            if self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle)) == _SUCCESS
            else None
        )

    def by_uuid(self, uuid: str) -> c_void_p | None:
        handle = c_void_p()
        return (
            handle
            if self._call("nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(handle))
            == _SUCCESS
            else None
        )

    def gpu(self, index: int, handle: c_void_p) -> Gpu:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", handle, byref(major), byref(minor))
        return Gpu(
            index,
            self.text("nvmlDeviceGetUUID", handle),
            self.text("nvmlDeviceGetName", handle),
            f"sm_{major.value}{minor.value}",
            self._memory(handle).total,
            self.number("nvmlDeviceGetMinorNumber", handle),
        )

    def state(self, handle: c_void_p) -> GpuState:
        memory, processes, reasons = self._memory(handle), self._processes(handle), c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, byref(reasons))
        sizes = [used for used in processes.values() if used is not None]
        return GpuState(
            memory.used,
            processes,
            max(0, memory.used - sum(sizes)) if len(sizes) == len(processes) else None,
            self.number("nvmlDeviceGetClockInfo", handle, c_uint(_SM_CLOCK)),
            self.number("nvmlDeviceGetTemperature", handle, c_uint(_GPU_TEMPERATURE)),
            tuple(words for bit, words in THROTTLING.items() if reasons.value & bit),
        )

    def _memory(self, handle: c_void_p) -> _Memory:
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        self._call("nvmlDeviceGetMemoryInfo_v2", handle, byref(memory))
        return memory

    def used_bytes(self, handle: c_void_p) -> int:
        """Return the bytes in use, 0 if the driver does not report them."""
        return int(self._memory(handle).used)

    def _processes(self, handle: c_void_p) -> dict[int, int | None]:
        room = 64
        while room <= 4096:
            entries, count = (_Process * room)(), c_uint(room)
            status = self._call(
                "nvmlDeviceGetComputeRunningProcesses_v3", handle, byref(count), entries
            )
            if status != _TOO_SMALL:
                running = entries[: count.value] if status == _SUCCESS else []
                return {e.pid: None if e.used == _UNKNOWN else e.used for e in running}
            room *= 4
        return {}


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    try:
        return _Library(settings.nvml_library())
    except OSError:
        return None
