"""What a measurement depends on besides the candidate and the task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .target import TargetReport

IsolationLevel = Literal["namespaces", "bubblewrap", "landlock", "process"]
# strongest first
ISOLATION_LEVELS: tuple[IsolationLevel, ...] = ("namespaces", "bubblewrap", "landlock", "process")
# the key in Environment.facts for the isolation level of the task's own worker
TASK_ISOLATION = "isolation of the task"


@dataclass(frozen=True)
class Environment:
    """`device` and `toolchain` are part of an evaluation's key; the rest is evidence.

    device: e.g. "cpu:AMD EPYC:avx512f:l3=32M". toolchain: e.g. "torch 2.13.0+cpu, g++ 12.2.0,
    python 3.11.7, evaluator 5c1f0a3b9d21": versions, and the start of the digest of the evaluator's
    own files. facts: free text by name (kernel, cores, governor, versions). allocation: the
    allocator policy that candidate and baseline ran under.
    """

    device: str
    toolchain: str
    isolation: str = "process"
    allocation: str = ""
    threads: int = 1
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ceilings:
    """Rates measured on this device, on a CPU with a single thread.

    bandwidth: bytes/s, reads plus writes, by level ("L1", "L2", "L3", "memory"). level_bytes: the
    size up to which each level was measured. write_bandwidth: bytes/s of stores alone, by level.
    operations: floating-point operations/s by dtype (a fused multiply-add counts as two).
    launch_us: the shortest call that can be observed, in microseconds. streamed_bandwidth and
    streamed_write_bandwidth: the same two rates with stores that bypass the caches and need no read
    for ownership; only for levels that have such stores, which is memory alone.
    """

    bandwidth: dict[str, float]
    write_bandwidth: dict[str, float]
    operations: dict[str, float]
    level_bytes: dict[str, int]
    launch_us: float = 0.0
    streamed_bandwidth: dict[str, float] = field(default_factory=dict)
    streamed_write_bandwidth: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Interpreter:
    """One Python interpreter: where it was found and whether the evaluator can run in it."""

    path: str
    origin: str
    usable: bool
    reason: str
    python: str = ""
    torch: str = ""
    triton: str = ""


@dataclass(frozen=True)
class Device:
    """One GPU.

    index: as nvidia-smi counts. uuid: its permanent identifier. arch: e.g. sm_90. users: other
    programs that compute on it. measuring: whether an evaluator is timing on it at this moment.
    """

    index: int
    uuid: str
    name: str
    arch: str
    memory_bytes: int
    used_bytes: int = 0
    users: tuple[str, ...] = ()
    measuring: bool = False

    def __str__(self) -> str:
        busy = ["being timed on"] * self.measuring + [f"used by {user}" for user in self.users]
        memory = f"{self.used_bytes >> 20} of {self.memory_bytes >> 20} MiB in use"
        return (
            f"GPU {self.index} {self.name} {self.arch} ({self.uuid}): {memory}, "
            f"{', '.join(busy) or 'free'}"
        )


@dataclass(frozen=True)
class MachineReport:
    """The judge's answer to `describe`."""

    environment: Environment
    targets: tuple[TargetReport, ...]
    isolation: dict[str, str]  # level -> "available" or the reason why not
    ceilings: Ceilings | None = None
