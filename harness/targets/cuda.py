"""NVIDIA GPUs: the first visible one, and its measured memory and arithmetic rates.

A judge uses one GPU. Where there are several, the executor starts a judge for each and makes only
that one visible to it (CUDA_VISIBLE_DEVICES).
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import native, settings
from ..types import Ceilings, Device, Target
from . import ceilings_cache, cpu, framework, nvml
from .state import DeviceState, is_foreign, program

NAME, TORCH_DEVICE, MARGIN, ADDRESS_SPACE = "cuda", "cuda:0", Target("cuda").margin, 0
# A launch takes 0.15 us more in some processes than in others, independently of the addresses of
# data and code; streams of one process differ in the same way (seen on an H200). The ratios of a
# kernel of 3.6 us scatter by 3 %, so an interval of 1 % takes three dozen processes.
PATIENCE_S, PROCESS_US = 30.0, 0.075
BEHIND = 0.88  # 58 single pairs of equal kernels gave ratios from 0.94 to 1.05 (H200)
# used by the driver for the processes of an evaluation and counted for none: 31 MB (H200)
CONTEXTS_BYTES = 64 << 20
NARROW_FACTOR = 4.0  # relative to bfloat16: twice with 8 bits, four times with 4 bits if supported
# two launches of Triton took 429 us on an H200
SYNCHRONOUS, ONE_BY_ONE, LAUNCH_US, EXTRA_FIGURES = False, False, 200.0, False
OWN_MEMORY, SLOW_START = True, True
# its driver and compilers start processes
FORKS, COMPILES_AT_LAUNCH, COMPILES_AHEAD = True, True, False
ALLOCATION = "torch's caching allocator on the device, both sides alike"
_METHOD = "copy, fill, matrix product; version 1"


@lru_cache(maxsize=1)
def missing() -> str:
    try:
        if not framework.installed().cuda:
            return "this build of torch has no CUDA"
    except ImportError:
        return "torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "no NVIDIA driver or device answered"
    return ""


def device_key() -> str:
    properties = _properties()
    return (
        f"cuda:{properties.name}:sm_{properties.major}{properties.minor}:"
        f"{properties.total_memory >> 30}GiB:{_driver()}"
    )


def device_id() -> str:
    """Return the UUID where the driver reports it, otherwise the device key."""
    gpu = _gpu()
    return gpu.uuid if gpu is not None else device_key()


def timing_cpu() -> int:
    """Return the core that launches kernels. Launches of two judges on one core would wait for each
    other, so every GPU and every judge has a core of its own besides the one for CPU kernels."""
    number, gpu = settings.timing_core(), _gpu()
    if number is None:
        number = gpu.index if gpu is not None else 0
    return cpu.timing_cpu(1 + number)


def devices() -> tuple[Device, ...]:
    """Return every visible GPU and the programs that use it."""
    names = []
    for gpu in nvml.gpus():
        now = nvml.state(gpu.uuid)
        users = tuple(program(p) for p in now.processes if is_foreign(p))
        names.append(
            Device(gpu.index, gpu.uuid, gpu.name, gpu.arch, gpu.memory_bytes, now.used_bytes, users)
        )
    return tuple(names)


def state(processes: Sequence[int]) -> DeviceState:
    """Read which other programs compute on the GPU, its SM clock, and what slows it down.
    `processes` is not used: the evaluator's processes are recognised by their command lines."""
    gpu = _gpu()
    now = nvml.state(gpu.uuid) if gpu is not None else nvml.GpuState()
    facts = {
        "sm_clock": f"{now.sm_mhz} MHz" if now.sm_mhz is not None else "",
        "temperature": f"{now.temperature} C" if now.temperature is not None else "",
        "throttled_by": ", ".join(now.throttled),
        "memory_of_unseen_owners": f"{now.held_bytes >> 20} MiB"
        if now.held_bytes is not None
        else "",
    }
    return DeviceState(
        time.monotonic_ns(),
        foreign=tuple(program(p) for p in now.processes if is_foreign(p)),
        throttled=now.throttled,
        clock_mhz=now.sm_mhz,
        held_bytes=now.held_bytes,
        facts={name: text for name, text in facts.items() if text},
    )


def memory_of(processes: Sequence[int]) -> int | None:
    """Include the memory of the processes' contexts."""
    gpu = _gpu()
    use = nvml.state(gpu.uuid).processes if gpu is not None else {}
    sizes = [use[p] for p in processes if p in use]
    known_sizes = [each for each in sizes if each is not None]
    return sum(known_sizes) if known_sizes and len(known_sizes) == len(sizes) else None


def unowned_bytes() -> int:
    """Memory that a process holds as the descriptor of a freed allocation, and managed memory on
    the device, belong to none."""
    gpu = _gpu()
    return _unowned.beyond(nvml.state(gpu.uuid), nvml.state(gpu.uuid)) if gpu is not None else 0


class Unowned:
    """The device memory in use that is counted for no process, and the least of it so far."""

    def __init__(self) -> None:
        self._least: int | None = None

    def beyond(self, one: nvml.GpuState, other: nvml.GpuState) -> int:
        """Return how much more there is than the least, from two readings in a row, 0 if they do
        not agree: a process that ends or starts within a reading is in a part of it."""
        if None in (one.held_bytes, other.held_bytes) or one.processes != other.processes:
            return 0
        low, high = sorted(each.held_bytes or 0 for each in (one, other))
        self._least = high if self._least is None else min(high, self._least)
        return max(0, low - self._least - CONTEXTS_BYTES)


_unowned = Unowned()


def facts() -> dict[str, str]:
    """Return model, architecture, multiprocessors, memory, L2 and driver, as text by name."""
    import torch

    properties = _properties()
    return {
        "model": properties.name,
        "architecture": f"sm_{properties.major}{properties.minor}",
        "multiprocessors": str(properties.multi_processor_count),
        "memory": f"{properties.total_memory >> 20} MiB",
        "l2": f"{getattr(properties, 'L2_cache_size', 0) >> 10} KiB",
        "driver": _driver(),
        "cuda": str(torch.version.cuda),
        "device": device_id(),
    }


def nodes() -> tuple[str, ...]:
    """Return the control nodes and this GPU's node; the nodes of every GPU where the driver does
    not report which one it is."""
    gpu = _gpu()
    node = f"/dev/nvidia{gpu.minor}" if gpu is not None and gpu.minor is not None else ""
    gpu_nodes = [node] if os.path.exists(node) else glob.glob("/dev/nvidia[0-9]*")
    return tuple(sorted(gpu_nodes + glob.glob("/dev/nvidiactl") + glob.glob("/dev/nvidia-uvm*")))


def environment() -> dict[str, str]:
    """Name the GPU by UUID: in a confined process the device files of other GPUs are hidden, which
    changes the numbering."""
    gpu = _gpu()
    return {"CUDA_VISIBLE_DEVICES": gpu.uuid} if gpu is not None else {}


def preload() -> list[str]:
    """Return torch, and triton's modules where it is installed."""
    from importlib.util import find_spec

    if find_spec("triton") is None:
        return ["torch"]
    inside = [
        "triton.compiler",
        "triton.backends.nvidia.compiler",
        "triton.backends.nvidia.driver",
        "triton.experimental.gluon",
    ]
    return ["torch", "triton", *(name for name in inside if find_spec(name))]


def versions() -> dict[str, str]:
    """Return the version of the CUDA C++ compiler, if there is one."""
    version = native.find_toolkit().version
    return {"CUDA C++ by": version} if version else {}


def ceilings(cache: Path, command: list[str], exceeded: Ceilings | None = None) -> Ceilings:
    return ceilings_cache.ceilings(cache, command, device_key(), _METHOD, exceeded)


def measure() -> None:
    """Print the ceilings as JSON: best of several runs, on random data (zeros run faster)."""
    import torch

    l2 = int(getattr(_properties(), "L2_cache_size", 0)) or (40 << 20)
    sizes = {"L2": l2 // 4, "memory": 2 << 30}
    bandwidth, write = {}, {}
    for level, size in sizes.items():
        x = torch.randn(size // 4, device=TORCH_DEVICE)
        y = torch.empty_like(x)
        times = max(1, (1 << 30) // size)
        bandwidth[level] = (
            2 * size * times / _best(lambda a=x, b=y, t=times: [b.copy_(a) for _ in range(t)])
        )
        write[level] = size * times / _best(lambda b=y, t=times: [b.fill_(1.5) for _ in range(t)])
    operations = {}
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, n in (("float32", 4096), ("float16", 8192), ("bfloat16", 8192), ("float64", 4096)):
        a, b = (
            torch.randn(n, n, device=TORCH_DEVICE, dtype=getattr(torch, name)) for _ in range(2)
        )
        operations[name] = 2 * n**3 / _best(lambda p=a, q=b: p @ q)
    tiny = torch.zeros(1, device=TORCH_DEVICE)
    launch = _best(lambda: [tiny.add_(1) for _ in range(200)]) / 200
    result = {
        "bandwidth": bandwidth,
        "write_bandwidth": write,
        "operations": operations,
        "level_bytes": {"L2": l2, "memory": 1 << 62},
        "launch_us": min(1e6 * launch, 2.0),
    }
    sys.stdout.write(json.dumps(result) + "\n")


def _best(action: Any) -> float:
    """Return the seconds of the fastest of several runs, by device events."""
    import torch

    times: list[float] = []
    for _ in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        action()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return min(times[2:])


def _properties() -> Any:
    import torch

    return torch.cuda.get_device_properties(0)


@lru_cache(maxsize=1)
def _gpu() -> nvml.Gpu | None:
    """Return the management library's entry for torch's device 0."""
    gpus = nvml.gpus()
    uuid = str(getattr(_properties(), "uuid", ""))
    gpu = next((g for g in gpus if uuid and uuid in g.uuid), gpus[0] if len(gpus) == 1 else None)
    if gpu is not None:  # before any candidate runs
        _unowned.beyond(nvml.state(gpu.uuid), nvml.state(gpu.uuid))
    return gpu


@lru_cache(maxsize=1)
def _driver() -> str:
    try:
        return next(
            w
            for w in Path("/proc/driver/nvidia/version").read_text().split()
            if w[:1].isdigit() and "." in w
        )
    except (OSError, StopIteration):
        return "unknown driver"
