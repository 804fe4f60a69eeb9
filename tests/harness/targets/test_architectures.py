"""Every architecture keeps the contract; occupancy agrees with NVIDIA's own calculator and with
LLVM's figures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.judge.processes import runtimes
from harness.targets import ARCHITECTURES, Architecture, Binary
from harness.targets.amd import ARCHITECTURES as AMD
from harness.targets.amd import read_listing
from harness.targets.nvidia import ARCHITECTURES as NVIDIA
from harness.targets.nvidia import Nvidia, read_resources, read_sass
from harness.targets.testing import ArchitectureConformance


class TestSm80(ArchitectureConformance):
    name = "cuda:sm_80"

    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.name]


class TestSm90(TestSm80):
    name = "cuda:sm_90"


class TestSm100(TestSm80):
    name = "cuda:sm_100"


class TestSm120(TestSm80):
    name = "cuda:sm_120"


class TestGfx90a(TestSm80):
    name = "hip:gfx90a"


class TestGfx942(TestSm80):
    name = "hip:gfx942"


class TestGfx950(TestSm80):
    name = "hip:gfx950"


class TestGfx1100(TestSm80):
    name = "hip:gfx1100"


def test_every_architecture_is_under_the_contract() -> None:
    assert set(ARCHITECTURES) == {c.name for c in (TestSm80, *TestSm80.__subclasses__())}


def test_the_matrix_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = runtimes.TritonSupport(
        problem="triton is not installed", interpreter="triton is not installed"
    )
    monkeypatch.setattr(runtimes, "triton_support", lambda: gone)
    assert {(t.mode, t.reason) for t in runtimes.reports("") if t.languages != ("cuda",)} == {
        ("absent", "triton is not installed")
    }
    amd_only = runtimes.TritonSupport("3.7", "", ("hip",), "", "its interpreter needs numpy")
    monkeypatch.setattr(runtimes, "triton_support", lambda: amd_only)
    found = {t.target: t for t in runtimes.reports("")}
    assert (found["cpu"].mode, found["cpu"].reason) == ("absent", "its interpreter needs numpy")
    assert found["hip:gfx942"].mode == "compile"
    assert found["hip:gfx942"].languages == ("triton",)
    # CUDA C++ may still be compiled, where nvcc or NVRTC is
    assert "triton" not in found["cuda:sm_90"].languages


def test_the_device_that_is_here_is_not_listed_as_compile_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        runtimes, "triton_support", lambda: runtimes.TritonSupport("3.7", "2", ("cuda", "hip"))
    )
    assert "cuda:sm_90" not in {t.target for t in runtimes.reports("sm_90")}
    assert "cuda:sm_90" in {t.target for t in runtimes.reports("")}


CALCULATOR = r"""
#include <cstdio>
#include <climits>
#include <cstddef>
#include "cuda_occupancy.h"
int main() {
  int major, registers, warps; long shared, multiprocessor, block; int threads;
  while (scanf("%d %d %d %ld %ld %ld %d", &major, &registers, &warps, &shared, &multiprocessor, &block, &threads) == 7) {
    cudaOccDeviceProp device = {};
    device.computeMajor = major; device.computeMinor = 0; device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = threads; device.regsPerBlock = 65536; device.regsPerMultiprocessor = 65536;
    device.warpSize = 32; device.sharedMemPerBlock = 48 << 10; device.sharedMemPerMultiprocessor = multiprocessor;
    device.numSms = 100; device.sharedMemPerBlockOptin = block; device.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = 1024; function.numRegs = registers; function.sharedSizeBytes = 0;
    function.partitionedGCConfig = PARTITIONED_GC_OFF; function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = block; function.numBlockBarriers = 1;
    cudaOccDeviceState state; cudaOccResult result;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, warps * 32, shared);
    printf("%d\n", e == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
  }
}
"""  # noqa: E501


def calculator() -> Path | None:
    """The folder of NVIDIA's header: in the toolkit, or beside triton."""
    try:
        import triton

        beside = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    except ImportError:
        beside = Path("/nowhere")
    return next(
        (
            f
            for f in (beside, Path("/usr/local/cuda/include"))
            if (f / "cuda_occupancy.h").is_file()
        ),
        None,
    )


def test_occupancy_is_what_nvidia_calculates(tmp_path: Path) -> None:
    folder, compiler = calculator(), shutil.which("g++")
    if folder is None or compiler is None:
        pytest.skip("cuda_occupancy.h or g++ is missing")
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    command = [compiler, "-O1", "-w", f"-I{folder}", "calculator.cpp", "-o", "calculator"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    asked: list[tuple[Nvidia, int, int, int]] = [
        (a, registers, warps, shared)
        for a in NVIDIA
        for registers in (16, 32, 33, 64, 72, 96, 128, 168, 255)
        for warps in (1, 2, 3, 4, 5, 8, 16, 32)
        for shared in (0, 100, 1024, 9000, 33_000, 65_536, 98_304, a.max_shared)
    ]
    lines = [
        (
            f"{a.capability[0]} {registers} {warps} {shared} {a.shared} {a.max_shared} "
            f"{32 * a.max_warps}"
        )
        for a, registers, warps, shared in asked
    ]
    done = subprocess.run(
        [tmp_path / "calculator"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    theirs = [int(n) for n in done.stdout.split()]
    for (a, registers, warps, shared), blocks in zip(asked, theirs, strict=True):
        found = a.occupancy(registers, warps, shared)
        assert found.blocks == blocks, (a.name, registers, warps, shared, found)


@pytest.mark.parametrize(
    # as LLVM's "Occupancy" comment says of kernels without local data share
    ("name", "vector", "waves"),
    [
        ("gfx90a", 84, 5),
        ("gfx942", 124, 4),
        ("gfx950", 112, 4),
        ("gfx1100", 178, 8),
        ("gfx942", 24, 8),
        ("gfx942", 512, 1),
    ],
)
def test_occupancy_is_what_llvm_calculates(name: str, vector: int, waves: int) -> None:
    a = next(a for a in AMD if a.name == name)
    assert a.occupancy(vector, 32, 4, 0).warps == 4 * waves


def test_tensor_memory_limits_blocks() -> None:
    a = next(a for a in NVIDIA if a.name == "sm_100")
    found = a.occupancy(64, 4, 1024, tensor=256)
    assert (found.blocks, found.limiter) == (2, "tensor memory")


SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P1 LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0020*/                   LDG.E.U16.CONSTANT R5, desc[UR6][R2.64] ;
        /*0030*/                   HGMMA.64x128x16.F32 R24, gdesc[UR8], R24 ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R10, R4 ;
        /*0050*/                   LDGSTS.E.BYPASS.128 [R3], desc[UR4][R8.64] ;
        /*0060*/                   STL [R1+0x8], R5 ;
        /*0070*/                   LDL R5, [R1+0x8] ;
        /*0080*/                   FFMA R0, R1, R2, R3 ;
        /*0090*/                   MUFU.EX2 R0, R1 ;
        /*00a0*/             @P0   STG.E.64 desc[UR6][R2.64], R4 ;
        /*00b0*/                   NOP ;
"""


def test_a_disassembly_is_counted() -> None:
    mix, matrix, widths = read_sass(SASS)
    assert (
        mix["total"],
        mix["global_load"],
        mix["global_store"],
        mix["local_store"],
        mix["local_load"],
    ) == (11, 2, 1, 1, 1)
    assert (mix["matrix"], mix["async_copy"], mix["multiply_add"], mix["special"]) == (2, 1, 1, 1)
    assert matrix == {"HGMMA.64x128x16.F32": 1, "HMMA.16816.F32": 1}
    assert widths == {"128": 2, "16": 1, "64": 1}
    facts = ARCHITECTURES["cuda:sm_90"].read(
        Binary(4, 0, 0, {"sass": SASS}, " Function k:\n  REG:72 STACK:16 SHARED:0 LOCAL:0\n")
    )
    assert facts.spilled
    assert facts.registers == {"registers": 72}
    assert read_resources("nothing") == (0, 0)


AMDGCN = """
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	global_load_dwordx4 v[0:3], v4, s[0:1]
	buffer_load_ushort v1, v2, s[0:3], 0 offen
	v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]
	v_fma_f32 v0, v1, v2, v3
	v_exp_f32_e32 v0, v1
	scratch_store_dword off, v1, s0
	ds_read_b128 v[0:3], v5
	s_nop 1
	global_store_dwordx2 v0, v[2:3], s[0:1]
	s_endpgm
    .agpr_count:     8
    .private_segment_fixed_size: 64
    .sgpr_count:     40
    .vgpr_count:     136
    .vgpr_spill_count: 3
"""


def test_amd_assembly_is_counted() -> None:
    mix, matrix, widths = read_listing(AMDGCN)
    assert (
        mix["total"],
        mix["matrix"],
        mix["global_load"],
        mix["shared_load"],
        mix["local_store"],
    ) == (10, 1, 2, 1, 1)
    assert matrix == {"v_mfma_f32_32x32x8_f16": 1}
    assert widths == {"128": 1, "16": 1, "64": 1}
    facts = ARCHITECTURES["hip:gfx942"].read(Binary(4, 0, 0, {"amdgcn": AMDGCN}))
    assert (facts.registers, facts.spills, facts.stack_bytes) == (
        {"vgpr": 136, "agpr": 8, "sgpr": 40},
        {"vgpr": 3},
        64,
    )
    assert facts.spilled
    assert facts.occupancy.warps == 12
