"""What the benchmarks share: a judge with a cache of its own, the machine's description, the
record's file."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.judge.process_environment import JUDGE_ENVIRONMENT  # noqa: E402
from harness.types import Evaluation, to_json  # noqa: E402
from kevolve_mcp.executors.local import LocalExecutor  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


@contextlib.asynccontextmanager
async def judge(record: dict[str, object]) -> AsyncIterator[LocalExecutor]:
    """A fresh judge. The record gets what the machine is, before and after."""
    record["nvidia_smi"] = _smi()
    with tempfile.TemporaryDirectory() as cache:
        async with LocalExecutor(None, Path(cache)) as executor:
            report = await executor.describe()
            record["targets"] = to_json(report.targets)
            record["isolation"] = report.isolation
            yield executor
    record["nvidia_smi_after"] = _smi()


def show(evaluation: Evaluation, label: str, seconds: float) -> None:
    """One evaluation for the reader of the terminal."""
    print(f"{label}: {evaluation.status} {evaluation.message[:400]} in {seconds:.1f} s", flush=True)
    for case in evaluation.cases:
        print(
            f"    {case.name}: {case.speedup} {case.interval} {case.verdict} {case.baselines} own "
            f"{case.latency_us} roof {case.roofline_fraction}"
        )
    for signal in evaluation.signals:
        print(f"    * {signal.name}: {signal.message[:300]}")
    print(
        "   ",
        {s.stage: round(s.seconds, 2) for s in evaluation.stages},
        evaluation.device_seconds,
        flush=True,
    )


def as_judge() -> None:
    """Run this program under the environment of a judge, for those that are one."""
    if any(os.environ.get(name) != value for name, value in JUDGE_ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **JUDGE_ENVIRONMENT})


def machine(packages: Iterable[str] = ()) -> dict[str, object]:
    """Platform, processor, cores, how many programs wanted them in the minute before, Python, and
    the versions of packages that have a say."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "",
    )
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "platform": platform.platform(),
        "processor": cpu or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "packages": versions,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def write(out: Path, name: str, record: dict[str, object]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {out / f'{name}.json'}", flush=True)


def need_device() -> None:
    """Ends the program where there is no NVIDIA device."""
    if shutil.which("nvidia-smi") is None:
        print("no NVIDIA device here: nothing to record")
        raise SystemExit(0)


def _smi() -> str:
    try:
        return subprocess.run(
            ["nvidia-smi"], capture_output=True, text=True, check=False, timeout=30
        ).stdout
    except OSError:
        return "nvidia-smi is not here"
