"""The CPU: its description, and its memory and arithmetic rates measured with one pinned thread."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import native
from ..types import Ceilings, Device, Target
from . import ceilings_cache
from .state import DeviceState, stolen_ns, waited_ns

# the cores allowed to this process at its start; pinning a thread narrows the set later
CORES = tuple(sorted(os.sched_getaffinity(0)))
NAME, TORCH_DEVICE, MARGIN, ADDRESS_SPACE = "cpu", "cpu", Target("cpu").margin, 8 << 30
PATIENCE_S, PROCESS_US = 18.0, 0.0
# F of single pairs of one kernel scattered by 2 to 14 % on two noisy cores. With a scatter of 10 %,
# a candidate 10 % better than the best is dropped in 1 of 14 cases, and may be timed again at the
# session's end
BEHIND = 0.95
# per cycle, a core does 2,048 operations on 8-bit values with AMX, and 64 on float32 with AVX-512
NARROW_FACTOR = 32.0
SYNCHRONOUS, ONE_BY_ONE, LAUNCH_US, EXTRA_FIGURES = True, True, 0.0, True
OWN_MEMORY, SLOW_START = False, False
# a kernel that is timed on the host does not need to start processes
FORKS, COMPILES_AT_LAUNCH, COMPILES_AHEAD = False, False, True
ALLOCATION = "glibc malloc, freed memory kept (no mmap threshold, no trim), both sides alike"
CALM_ROUNDS, MOST_MEASURING_S = 5, 5.0  # see _best_of
_LEVELS = {"L1": 32 << 10, "L2": 512 << 10, "L3": 16 << 20}  # where the system reports no sizes
_VECTOR_FLAGS = (
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx2",
    "fma",
    "amx_tile",
    "asimd",
    "sve",
    "sve2",
)

_KERNELS = r"""
#include <cstdint>
#include <cstddef>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
extern "C" void scale(const float* __restrict__ x, float* __restrict__ y, int64_t n,
                      int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * 1.0001f;
    __asm__ volatile("" ::: "memory");
  }
}
extern "C" void fill(float* __restrict__ y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)t;
    __asm__ volatile("" ::: "memory");
  }
}
#if defined(__AVX512F__)
#define WIDTH 64  // bytes of a register
#define CHAINS 16  // of 32 registers
#elif defined(__AVX__)
#define WIDTH 32
#define CHAINS 12  // of 16 registers, two of which hold the factors
#elif defined(__aarch64__)
#define WIDTH 16
#define CHAINS 24
#else
#define WIDTH 16
#define CHAINS 12
#endif
#if defined(__AVX512F__)
#define STREAM(to, value) _mm512_stream_ps(to, value)
#elif defined(__AVX__)
#define STREAM(to, value) _mm256_stream_ps(to, value)
#elif defined(__x86_64__)
#define STREAM(to, value) _mm_stream_ps(to, value)
#endif
#if defined(STREAM)  // whole lines of 64 bytes, past the caches; x, y aligned, n is full lines
typedef float line_part __attribute__((vector_size(WIDTH), may_alias));
extern "C" void scale_streamed(const float* x, float* y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    for (int64_t i = 0; i + 16 <= n; i += 16)
      for (int64_t k = i; k < i + 16; k += WIDTH / 4)
        STREAM(y + k, *(const line_part*)(x + k) * 1.0001f);
    _mm_sfence();
  }
}
extern "C" void fill_streamed(float* y, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; t++) {
    const line_part value = line_part{} + (float)t;
    for (int64_t i = 0; i + 16 <= n; i += 16)
      for (int64_t k = i; k < i + 16; k += WIDTH / 4) STREAM(y + k, value);
    _mm_sfence();
  }
}
extern "C" int64_t streams() { return 1; }
#else
extern "C" int64_t streams() { return 0; }
#endif
template <typename T> static inline T multiply_and_add(int64_t times) {
  typedef T vector __attribute__((vector_size(WIDTH)));
  const int lanes = WIDTH / sizeof(T);
  vector a[CHAINS]; vector m = {}, c = {};
  for (int k = 0; k < lanes; k++) { m[k] = (T)0.999; c[k] = (T)0.001; }
  for (int k = 0; k < CHAINS; k++) a[k] = c * (T)k;
  for (int64_t t = 0; t < times; t++)
    for (int k = 0; k < CHAINS; k++) a[k] = a[k] * m + c;
  T s = 0; for (int k = 0; k < CHAINS; k++) for (int j = 0; j < lanes; j++) s += a[k][j];
  return s;
}
extern "C" float multiply_add(int64_t times) { return multiply_and_add<float>(times); }
extern "C" double multiply_add_double(int64_t times) { return multiply_and_add<double>(times); }
extern "C" int64_t bytes_a_step() { return (int64_t)WIDTH * CHAINS; }
"""


def facts() -> dict[str, str]:
    """Return model, cores, caches, vector extensions and kernel, as text by name."""
    info = _cpuinfo()
    flags = set(info.get("flags", info.get("Features", "")).split())
    caches = ", ".join(f"{level} {size >> 10} KiB" for level, size in cache_sizes().items())
    return {
        "model": info.get("model name", platform.processor() or platform.machine()),
        "architecture": platform.machine(),
        "cores": str(len(CORES)),
        "caches": caches,
        "vector": " ".join(f for f in _VECTOR_FLAGS if f in flags) or "baseline",
        "kernel": platform.release(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        or "not readable",
    }


def device_key() -> str:
    """Return the CPU's part of an evaluation's key."""
    f = facts()
    return f"cpu:{f['model']}:{f['vector'].replace(' ', '+')}:{f['caches'].replace(' ', '')}"


def device_id() -> str:
    """Return one name for all cores: they share caches and memory bandwidth, so they share a
    lock."""
    return "cpu"


def devices() -> tuple[Device, ...]:
    """Return nothing: there is one CPU, which needs no list."""
    return ()


def state(processes: Sequence[int]) -> DeviceState:
    """Read how long these processes have waited for the timing core, how long the hypervisor has
    taken it, and the load of the machine."""
    waited = {process: ns for process in processes if (ns := waited_ns(process)) is not None}
    load = _read("/proc/loadavg").split()[:1]
    facts = {"load": load[0]} if load else {}
    core = timing_cpu()
    khz = _read(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")
    mhz = int(khz) // 1000 if khz.isdigit() else None
    return DeviceState(time.monotonic_ns(), waited, stolen_ns(core), core_mhz=mhz, facts=facts)


def memory_of(processes: Sequence[int]) -> int | None:
    """Return None: a CPU has no device memory."""
    return None


def unowned_bytes() -> int:
    """Return 0, for the same reason."""
    return 0


def cache_sizes() -> dict[str, int]:
    """Return the bytes of the data caches of one core, by level."""
    sizes: dict[str, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "type") == "Instruction":
            continue
        size = re.match(r"(\d+)([KM]?)", _read(index / "size"))
        if size:
            sizes[f"L{_read(index / 'level')}"] = (
                int(size.group(1)) * {"K": 1 << 10, "M": 1 << 20, "": 1}[size.group(2)]
            )
    return sizes or dict(_LEVELS)


def timing_cpu(number: int = 0) -> int:
    """Return the core that timed processes are pinned to: the last one allowed, which the system
    uses least. number: which of the judges that may time at once; each gets its own core where
    there are enough."""
    return CORES[-1 - number % len(CORES)]


def missing() -> str:
    return ""


def nodes() -> tuple[str, ...]:
    return ()


def environment() -> dict[str, str]:
    """Hide the GPUs: torch.compile would query the driver in the fork server and again in its
    children, where that is an error that loses the baseline."""
    return {"CUDA_VISIBLE_DEVICES": ""}


def preload() -> list[str]:
    return ["torch"]


def versions() -> dict[str, str]:
    return {}


def ceilings(cache: Path, command: list[str], exceeded: Ceilings | None = None) -> Ceilings:
    return ceilings_cache.ceilings(cache, command, device_key(), _method(), exceeded)


def cached_ceilings(cache: Path) -> Ceilings | None:
    """Return what `ceilings` would return without measuring; None where it would measure."""
    return ceilings_cache.read(ceilings_cache.file(cache, device_key(), _method()))


def _method() -> str:
    return f"{_KERNELS}{_best_of.__doc__}"


def measure() -> None:
    """Print the ceilings as JSON (see `_best_of`). A nearer level counts as at least as fast as the
    next, with either kind of stores."""
    os.sched_setaffinity(0, {timing_cpu()})
    caches = cache_sizes()
    last = max(caches.values())
    sizes = {level: size // 2 for level, size in caches.items()} | {
        "memory": min(8 * last, 512 << 20)
    }
    rates = _native_rates(sizes) if native.find_compiler() else _torch_rates(sizes)
    for name in ("bandwidth", "write_bandwidth"):
        rates[name] = _falling(rates[name], rates.get(f"streamed_{name}", {}))
    sys.stdout.write(json.dumps({**rates, "level_bytes": {**caches, "memory": 1 << 62}}) + "\n")


def _native_rates(sizes: dict[str, int]) -> dict[str, Any]:
    import ctypes

    library = native.load_cpp(_KERNELS, flags=("-ffast-math",))
    total = max(sizes.values())
    x, y = (ctypes.create_string_buffer(total + 64) for _ in range(2))
    px, py = (-(-ctypes.addressof(b) // 64) * 64 for b in (x, y))
    loops, width = 200_000, library.bytes_a_step()
    work: dict[tuple[str, str], tuple[float, Any]] = {
        ("operations", "float32"): (loops * width / 4 * 2, lambda: library.multiply_add(loops)),
        ("operations", "float64"): (
            loops * width / 8 * 2,
            lambda: library.multiply_add_double(loops),
        ),
    }
    for level, size in sizes.items():
        count = size // 8  # two arrays share the level
        times = max(1, (16 << 20) // size)
        moved = 2 * count * 4 * times
        work["bandwidth", level] = moved, lambda n=count, t=times: library.scale(px, py, n, t)
        work["write_bandwidth", level] = moved, lambda n=2 * count, t=times: library.fill(py, n, t)
    if library.streams():
        count = sizes["memory"] // 8
        work["streamed_bandwidth", "memory"] = (
            8 * count,
            lambda: library.scale_streamed(px, py, count, 1),
        )
        work["streamed_write_bandwidth", "memory"] = (
            8 * count,
            lambda: library.fill_streamed(py, 2 * count, 1),
        )
    return {**_best_of(work), "launch_us": 0.2}


def _torch_rates(sizes: dict[str, int]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    work: dict[tuple[str, str], tuple[float, Any]] = {}
    for level, size in sizes.items():
        x, y = torch.ones(size // 8), torch.ones(size // 8)
        times = max(1, (16 << 20) // size)
        work["bandwidth", level] = (
            size * times,
            lambda a=x, b=y, t=times: [torch.mul(a, 2.0, out=b) for _ in range(t)],
        )
        work["write_bandwidth", level] = (
            size / 2 * times,
            lambda b=y, t=times: [b.fill_(1.0) for _ in range(t)],
        )
    for name in ("float32", "float64"):
        a = torch.randn(512, 512, dtype=getattr(torch, name))
        work["operations", name] = 2 * 512**3, lambda m=a: m @ m
    return {**_best_of(work), "launch_us": 0.2}


def _best_of(work: dict[tuple[str, str], tuple[float, Any]]) -> dict[str, dict[str, float]]:
    """Amounts over the shortest of many runs, by rounds over all of them until no rate has risen by
    2 % for 5 rounds, or for 5 s.

    A ceiling is what can be reached. Seven runs of one level after the other met one busy second as
    a whole: of twelve measurements on one machine the rate of its memory came to 2 to 12 GB/s, and
    what bounds a kernel followed it."""
    rates = dict.fromkeys(work, 0.0)
    began, calm = time.monotonic(), 0
    for _, action in work.values():
        action()
    while calm < CALM_ROUNDS and time.monotonic() - began < MOST_MEASURING_S:
        risen = False
        for key, (amount, action) in work.items():
            start = time.perf_counter()
            action()
            rate = amount / (time.perf_counter() - start)
            risen |= rate > 1.02 * rates[key]
            rates[key] = max(rates[key], rate)
        calm = 0 if risen else calm + 1
    best: dict[str, dict[str, float]] = {}
    for (kind, name), rate in rates.items():
        best.setdefault(kind, {})[name] = rate
    return best


def _falling(rates: dict[str, float], streamed: dict[str, float]) -> dict[str, float]:
    """Raise each level's rate to at least that of the levels behind it. rates: by level, the
    nearest first. streamed: the rates with stores that bypass the caches."""
    levels = list(rates)
    return {
        level: max(
            rates[level],
            *(max(rates[behind], streamed.get(behind, 0.0)) for behind in levels[number + 1 :]),
            0.0,
        )
        for number, level in enumerate(levels)
    }


def _cpuinfo() -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if not line.strip() and fields:
            break
        fields.setdefault(name.strip(), value.strip())
    return fields


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
