"""NVIDIA architectures: limits, occupancy, and facts read from a listing.

Sources. Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Allocation: the arithmetic of cuda_occupancy.h of the CUDA toolkit (registers by warp in units of
256 over four partitions, shared memory in units of 128 bytes plus 1 KiB per block reserved for the
system). Tensor memory: 512 columns per multiprocessor (PTX ISA, "Tensor Memory"). Multiprocessor
counts and cache sizes: the data sheets of the products named.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .architecture import Architecture, Binary, Facts
from .occupancy import Occupancy, round_up, tightest

_REGISTERS, _REGISTER_UNIT, _PARTITIONS, _MAX_REGISTERS = 65536, 256, 4, 255
_SHARED_UNIT, _SHARED_RESERVED = 128, 1024
_TENSOR_COLUMNS = 512

# class -> SASS mnemonics (CUDA Binary Utilities, "Instruction Set Reference"). The first class that
# matches the base mnemonic wins.
_CLASSES = (
    ("matrix", r"[HIDQOB]G?MMA|UTC[HIQO]MMA"),
    ("async_copy", r"LDGSTS|UTMA\w+|UBLKCP|UBLKPF"),
    ("global_load", r"LDG|LD|LDT?RAM"),
    ("global_store", r"STG|ST"),
    ("shared_load", r"LDS|LDSM"),
    ("shared_store", r"STS|STSM"),
    ("local_load", r"LDL"),
    ("local_store", r"STL"),
    ("atomic", r"ATOM\w*|RED\w*"),
    ("multiply_add", r"[FHD]FMA2?"),
    ("float", r"[FHD](?:ADD|MUL|MNMX|SETP|SET|SEL|CHK|SWZADD)\w*"),
    ("special", r"MUFU"),
    ("convert", r"[FI]2[FIP]\w*|FRND|I2I\w*"),
    ("barrier",
     r"BAR|SYNCS|DEPBAR|LDGDEPBAR|WARPSYNC|MEMBAR|FENCE|ERRBAR|WARPGROUP|ARRIVES|UCGABAR\w*"),
    ("branch", r"BRA|BRX|JMP|JMX|CALL|RET|EXIT|BREAK|BSSY|BSYNC"),
    ("shuffle", r"SHFL|VOTE\w*|MATCH|REDUX"),
    ("integer",
     r"U?(?:IMAD|IADD\w*|ISETP|IMNMX|VIMNMX\w*|VIADD\w*|LOP3|PLOP3|SHF|LEA|IABS|FLO|POPC|BMSK|"
     r"SGXT|PRMT|SEL|IDP\w*)"),
    ("move", r"U?MOV\w*|R2UR|S2U?R|CS2R|R2P|P2R|U?LDC\w*"),
)  # fmt: skip
_PATTERNS = tuple((name, re.compile(f"(?:{pattern})$")) for name, pattern in _CLASSES)
_SASS = re.compile(
    r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Z0-9][A-Za-z0-9_]*)*)",
    re.MULTILINE,
)
_PTX_MATRIX = re.compile(r"\b(mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b")


@dataclass(frozen=True)
class Nvidia(Architecture):
    """One NVIDIA architecture. shared: bytes per multiprocessor. cache: bytes of the last level.
    memory: bytes of the product."""

    name: str
    capability: tuple[int, int]
    product: str
    multiprocessors: int
    max_warps: int
    max_blocks: int
    shared: int
    max_shared: int
    cache: int
    memory: int
    backend: str = "cuda"
    warp_size: int = 32

    @property
    def compiler_arch(self) -> int:
        return 10 * self.capability[0] + self.capability[1]

    def occupancy(self, registers: int, warps: int, shared: int, tensor: int = 0) -> Occupancy:
        """Compute the occupancy. registers: per thread. warps: per block. shared: bytes per block
        requested at launch. tensor: columns of tensor memory per block."""
        per_warp = round_up(max(registers, 1) * self.warp_size, _REGISTER_UNIT)
        by_registers = _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps
        if registers > _MAX_REGISTERS or per_warp * round_up(warps, _PARTITIONS) > _REGISTERS:
            by_registers = 0
        limits = {
            "warps": self.max_warps // warps,
            "registers": by_registers,
            "shared memory": 0
            if shared > self.max_shared
            else self.shared // round_up(shared + _SHARED_RESERVED, _SHARED_UNIT),
            "blocks": self.max_blocks,
        }
        if tensor:
            limits["tensor memory"] = _TENSOR_COLUMNS // tensor
        return tightest(limits, warps, self.max_warps)

    def read(self, binary: Binary) -> Facts:
        registers, stack = read_resources(binary.resources)
        mix, matrix, widths = read_sass(binary.texts.get("sass", ""))
        if not mix:
            matrix = dict(Counter(_PTX_MATRIX.findall(binary.texts.get("ptx", ""))))
        return Facts(
            registers={"registers": registers} if registers else {},
            spills={"loads": mix.get("local_load", 0), "stores": mix.get("local_store", 0)}
            if mix
            else {},
            stack_bytes=stack,
            occupancy=self.occupancy(registers, binary.num_warps, binary.shared, binary.tensor),
            mix=mix,
            matrix=matrix,
            widths=widths,
        )

    def describe_device(self) -> dict[str, Any]:
        return {
            "name": f"{self.product} ({self.name}, compiled for, not here)",
            "capability": list(self.capability),
            "multiprocessors": self.multiprocessors,
            "warp_size": self.warp_size,
            "threads": self.max_warps * self.warp_size,
            "registers": _REGISTERS,
            "shared_block": self.max_shared,
            "shared": self.shared,
            "memory": self.memory,
            "cache": self.cache,
            "gcn": "",
        }


def read_resources(text: str) -> tuple[int, int]:
    """Read registers and stack bytes per thread from the output of `cuobjdump -res-usage`; the
    largest where there are several functions."""
    registers = [int(n) for n in re.findall(r"\bREG:(\d+)", text)]
    stack = [int(n) for n in re.findall(r"\b(?:STACK|LOCAL):(\d+)", text)]
    return max(registers, default=0), max(stack, default=0)


def read_sass(text: str) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Count instructions in a disassembly: (by class, matrix instructions by name, global accesses
    by bits per thread). NOPs do not count."""
    mix: Counter[str] = Counter()
    matrix: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for base, suffixes in _SASS.findall(text):
        if base == "NOP":
            continue
        kind = next((name for name, pattern in _PATTERNS if pattern.match(base)), "other")
        mix[kind] += 1
        mix["total"] += 1
        if kind == "matrix":
            matrix[base + ".".join(["", *suffixes.split(".")[1:3]])] += 1
        elif kind in ("global_load", "global_store") or base == "LDGSTS":
            width = re.search(r"\.(8|16|32|64|128|256)\b|\.[US](8|16)\b", suffixes)
            widths[(width.group(1) or width.group(2)) if width else "32"] += 1
    return dict(mix), dict(matrix), dict(widths)


_GIB = 1 << 30
ARCHITECTURES: tuple[Nvidia, ...] = (
    Nvidia("sm_80", (8, 0), "NVIDIA A100", 108, 64, 32, 164 << 10, 163 << 10, 40 << 20, 80 * _GIB),
    Nvidia("sm_90", (9, 0), "NVIDIA H100", 132, 64, 32, 228 << 10, 227 << 10, 50 << 20, 80 * _GIB),
    Nvidia(
        "sm_100", (10, 0), "NVIDIA B200", 148, 64, 32, 228 << 10, 227 << 10, 126 << 20, 180 * _GIB
    ),
    Nvidia(
        "sm_120", (12, 0), "NVIDIA RTX 5090", 170, 48, 24, 100 << 10, 99 << 10, 96 << 20, 32 * _GIB
    ),
)
