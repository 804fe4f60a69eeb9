"""Facts of a machine in words: its processor or device, its caches, and its measured ceilings."""

from __future__ import annotations

import re

from harness.types import Ceilings, Environment, Target

_HOST = re.compile(r"cpu:(?P<model>.+):(?P<vector>[^:]+):(?P<caches>L\d\d+KiB(?:,L\d\d+KiB)*)")
_CACHE = re.compile(r"L(\d)(\d+)KiB")
_LONG = re.compile(r"\d{4,}")
_INTERPRETED = ":triton-interpreter"


def device(key: str) -> str:
    """Return the device key of evaluations for a reader: "AMD EPYC; caches L1 32 KiB, L2 512 KiB,
    L3 32,768 KiB; vector avx2 fma". A key of another form is returned unchanged."""
    match = _HOST.fullmatch(key.removesuffix(_INTERPRETED))
    if match is None:
        return key
    caches = ", ".join(f"L{level} {int(size):,} KiB" for level, size in _CACHE.findall(key))
    said = f"{match['model']}; caches {caches}; vector {match['vector'].replace('+', ' ')}"
    return f"{said}; in Triton's interpreter" if key.endswith(_INTERPRETED) else said


def about(environment: Environment, target: str) -> str:
    """Return model, cores, caches and vector extensions of a host; for other targets the device."""
    facts = {
        name: environment.facts[name]
        for name in ("model", "cores", "caches", "vector")
        if environment.facts.get(name)
    }
    if not facts or not Target.parse(target).on_host:
        return device(environment.device)
    if "caches" in facts:
        facts["caches"] = _LONG.sub(lambda size: f"{int(size[0]):,}", facts["caches"])
    return "; ".join(f"{name} {value}" for name, value in facts.items())


def rates(ceilings: Ceilings) -> str:
    """Return the measured rates by level: "L1 210.4 GB/s up to 32 KiB, ..., memory 11.2 GB/s, 16.8
    GB/s with streamed stores"."""
    ends, streamed = ceilings.level_bytes, ceilings.streamed_bandwidth
    last = max(ends.values(), default=0)
    levels = ", ".join(
        f"{level} {rate / 1e9:,.1f} GB/s"
        + (f" up to {ends[level] // 1024:,} KiB" if 0 < ends.get(level, 0) < last else "")
        + (f", {streamed[level] / 1e9:,.1f} GB/s with streamed stores" if level in streamed else "")
        for level, rate in ceilings.bandwidth.items()
    )
    operations = ", ".join(
        f"{dtype} {rate / 1e9:,.0f} Gop/s" for dtype, rate in ceilings.operations.items()
    )
    return f"{levels}; {operations}; shortest call {ceilings.launch_us:.1f} us"
