"""Measured ceilings, cached by device and method for MOST_AGE_S."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..settings import NATIVE_CACHE
from ..types import Ceilings, from_json, to_json

# measure again after this time: clocks, cooling and other users of a machine change
MOST_AGE_S = 7 * 86400.0


def ceilings(
    cache: Path,
    command: list[str],
    device_key: str,
    method: str,
    exceeded: Ceilings | None = None,
) -> Ceilings:
    """Read the ceilings from the cache, or run `command`, whose last line of output is the JSON of
    a Ceilings. exceeded: ceilings that a kernel went beyond; they are measured again, and the
    higher value of each rate is kept. Raises CalledProcessError."""
    path = file(cache, device_key, method)
    if exceeded is None and (measured := read(path)) is not None:
        return measured
    environment = {
        **os.environ,
        NATIVE_CACHE: str(cache / "native"),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    measured = _parse(json.loads(process.stdout.splitlines()[-1]))
    if exceeded is not None:
        measured = _higher(measured, exceeded)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(to_json(measured)))
    os.replace(part, path)
    return measured


def file(cache: Path, device_key: str, method: str) -> Path:
    """Return the path of the cache file."""
    digest = hashlib.sha256(f"{device_key}\0{method}".encode()).hexdigest()[:16]
    return cache / f"ceilings-{digest}.json"


def read(path: Path) -> Ceilings | None:
    """Read a file of ceilings; None where it is missing, too old or not readable."""
    try:
        if 0 <= time.time() - path.stat().st_mtime <= MOST_AGE_S:
            return _parse(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError):
        pass
    return None


def _higher(one: Ceilings, other: Ceilings) -> Ceilings:
    """Combine two measurements: the higher value of each rate, and the shorter call."""

    def each(rates: dict[str, float], others: dict[str, float]) -> dict[str, float]:
        return {name: max(rate, others.get(name, 0.0)) for name, rate in rates.items()}

    return replace(
        one,
        bandwidth=each(one.bandwidth, other.bandwidth),
        write_bandwidth=each(one.write_bandwidth, other.write_bandwidth),
        operations=each(one.operations, other.operations),
        launch_us=min(one.launch_us, other.launch_us),
        streamed_bandwidth=each(one.streamed_bandwidth, other.streamed_bandwidth),
        streamed_write_bandwidth=each(one.streamed_write_bandwidth, other.streamed_write_bandwidth),
    )


def _parse(data: Any) -> Ceilings:
    return from_json(Ceilings, data)
