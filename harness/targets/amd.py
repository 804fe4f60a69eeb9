"""AMD architectures: limits, occupancy, and facts read from a listing.

Sources. Registers, granules, wavefronts and work-groups per compute unit: the AMDGPU back end of
LLVM (IsaInfo in AMDGPUBaseInfo, and its User Guide). Local data share: the CDNA 2, CDNA 3, CDNA 4
and RDNA 3 instruction set guides. Counts of compute units: the data sheets of the products named.
LLVM's own "Occupancy" comment leaves out memory requested at launch, which is how Triton requests
it; so occupancy is computed here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .architecture import Architecture, Binary, Facts
from .occupancy import Occupancy, round_up, tightest

# class -> names of instructions in the guides. The first class that matches a name's start wins.
_CLASSES = (
    ("matrix", r"v_(?:mfma|wmma|smfmac|swmmac)_"),
    ("async_copy", r"(?:global|buffer)_load_(?:async_)?lds_"),
    ("atomic", r"(?:global|buffer|flat)_atomic|ds_(?:add|min|max|cmpst|cmpstore|and|or|xor)_"),
    ("global_load", r"(?:global|buffer|flat)_load"),
    ("global_store", r"(?:global|buffer|flat)_store"),
    ("local_load", r"scratch_load"),
    ("local_store", r"scratch_store"),
    ("shuffle",
     r"ds_(?:bpermute|permute|swizzle)|v_permlane|v_readlane|v_writelane|v_readfirstlane|"
     r"v_mov_b32_dpp"),
    ("shared_load", r"ds_(?:read|load)"),
    ("shared_store", r"ds_(?:write|store)"),
    ("multiply_add", r"v_(?:dual_|pk_)?(?:fma|fmac|mad_f|dot)"),
    ("special", r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_"),
    ("convert", r"v_cvt_"),
    ("float",
     r"v_(?:dual_|pk_)?(?:add|sub|mul|max|min|max3|min3|maximum|minimum|div_\w+|ldexp)\w*_f(?:16|"
     r"32|64)|v_cmp_\w+_f"),
    ("barrier", r"s_barrier|s_waitcnt|s_wait_"),
    ("branch", r"s_c?branch|s_endpgm|s_setpc|s_swappc"),
    ("scalar_load", r"s_load|s_buffer_load"),
    ("move", r"v_(?:dual_)?mov|v_accvgpr|s_mov"),
    ("integer", r"[vs]_"),
)  # fmt: skip
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _CLASSES)
_INSTRUCTION = re.compile(r"^\s+((?:v|s|ds|global|buffer|flat|scratch)_[a-z0-9_]+)", re.MULTILINE)
_IDLE = ("s_nop", "s_delay_alu", "s_clause", "s_code_end", "s_set_inst_prefetch_distance")


@dataclass(frozen=True)
class Amd(Architecture):
    """One AMD architecture. A work-group runs on four SIMDs, which have `shared` bytes together.

    units: compute units, as the runtime counts multiprocessors. vector_registers: per lane of one
    SIMD, allocated in steps of `granule`; one count for both kinds where accumulation registers
    share the file.
    """

    name: str
    product: str
    units: int
    warp_size: int
    vector_registers: int
    granule: int
    max_waves: int  # per SIMD
    max_groups: int  # of more than one wavefront
    shared: int
    max_shared: int
    shared_granule: int
    scalar_registers: int  # per SIMD; 0 where every wavefront has all it can name
    memory: int
    cache: int
    backend: str = "hip"

    @property
    def compiler_arch(self) -> str:
        return self.name

    def occupancy(self, vector: int, scalar: int, warps: int, shared: int) -> Occupancy:
        """Compute the occupancy. vector: registers per lane (of both kinds where the file is
        shared). scalar: registers per wavefront. warps: wavefronts per work-group. shared: bytes
        per work-group requested at launch."""
        simds = 4
        waves = min(self.max_waves, self.vector_registers // round_up(max(vector, 1), self.granule))
        limits = {
            "wavefronts": simds * self.max_waves // warps,
            "vector registers": simds * waves // warps,
        }
        if shared:
            fits = shared <= self.max_shared
            limits["local data share"] = (
                self.shared // round_up(shared, self.shared_granule) if fits else 0
            )
        if self.scalar_registers:
            limits["scalar registers"] = (
                simds * (self.scalar_registers // round_up(max(scalar, 1), 16)) // warps
            )
        if warps > 1:
            limits["work-groups"] = self.max_groups
        return tightest(limits, warps, simds * self.max_waves)

    def read(self, binary: Binary) -> Facts:
        text = binary.texts.get("amdgcn", "")
        fields = {
            name: int(value)
            for name, value in re.findall(
                r"^\s+(?:- )?\.(\w+_(?:count|size)):\s+(\d+)", text, re.MULTILINE
            )
        }
        mix, matrix, widths = read_listing(text)
        return Facts(
            registers={n: fields[f"{n}_count"] for n in ("vgpr", "agpr",
                                                        "sgpr") if f"{n}_count" in fields},
            spills={n: fields[f"{n}_spill_count"] for n in ("vgpr",
                                                           "sgpr") if f"{n}_spill_count" in fields},
            stack_bytes=fields.get("private_segment_fixed_size", 0),
            occupancy=self.occupancy(
                fields.get("vgpr_count", 0), fields.get("sgpr_count", 0), binary.num_warps,
                binary.shared
            ),
            mix=mix,
            matrix=matrix,
            widths=widths,
        )  # fmt: skip

    def describe_device(self) -> dict[str, Any]:
        version = self.name.removeprefix("gfx")
        return {
            "name": f"{self.product} ({self.name}, compiled for, not here)",
            "capability": [int(version[:-2]), int(version[-2], 16)],
            "multiprocessors": self.units,
            "warp_size": self.warp_size,
            "threads": 4 * self.max_waves * self.warp_size,
            "registers": 4 * self.vector_registers * self.warp_size,
            "shared_block": self.max_shared,
            "shared": self.shared,
            "memory": self.memory,
            "cache": self.cache,
            "gcn": self.name,
        }


def read_listing(text: str) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Count instructions in AMDGCN assembly: (by class, matrix instructions by name, global
    accesses by bits per lane)."""
    mix: Counter[str] = Counter()
    matrix: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for name in _INSTRUCTION.findall(text):
        if name in _IDLE:
            continue
        kind = next((kind for kind, pattern in _PATTERNS if pattern.match(name)), "other")
        mix[kind] += 1
        mix["total"] += 1
        if kind == "matrix":
            matrix[name.removesuffix("_e64")] += 1
        elif kind in ("global_load", "global_store"):
            widths[_width(name)] += 1
    return dict(mix), dict(matrix), dict(widths)


def _width(name: str) -> str:
    words = re.search(r"dwordx(\d)", name)
    if words:
        return str(32 * int(words.group(1)))
    bits = re.search(r"_(?:b|u|i|d16_b|d16_hi_b)(8|16|32|64|96|128)\b", name)
    if bits:
        return bits.group(1)
    return "8" if "byte" in name else "16" if "short" in name else "32"


_GIB = 1 << 30
ARCHITECTURES: tuple[Amd, ...] = (
    Amd(
        "gfx90a",
        "AMD Instinct MI250X, one die",
        110,
        64,
        512,
        8,
        8,
        16,
        64 << 10,
        64 << 10,
        512,
        800,
        64 * _GIB,
        8 << 20,
    ),
    Amd(
        "gfx942",
        "AMD Instinct MI300X",
        304,
        64,
        512,
        8,
        8,
        16,
        64 << 10,
        64 << 10,
        512,
        800,
        192 * _GIB,
        256 << 20,
    ),
    Amd(
        "gfx950",
        "AMD Instinct MI355X",
        256,
        64,
        512,
        8,
        8,
        16,
        160 << 10,
        160 << 10,
        1280,
        800,
        288 * _GIB,
        256 << 20,
    ),
    Amd(
        "gfx1100",
        "AMD Radeon RX 7900 XTX",
        48,
        32,
        1536,
        24,
        16,
        32,
        128 << 10,
        64 << 10,
        512,
        0,
        24 * _GIB,
        96 << 20,
    ),
)
