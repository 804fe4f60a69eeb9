"""The compilers of CUDA C++ that are here, each by itself: binaries, symbols, words, and who takes
what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import native
from harness.native import (
    BuildOrder,
    NativeError,
    Toolkit,
    architecture_of,
    compile_order,
    find_toolkit,
    nvcc,
)
from harness.native.building import SourceRefused
from harness.targets.cubin import split

HERE = find_toolkit()
NVCC = pytest.param(
    replace(HERE, nvrtc=""),
    id="nvcc",
    marks=pytest.mark.skipif(not HERE.nvcc, reason="nvcc is not installed"),
)
NVRTC = pytest.param(
    replace(HERE, nvcc=""),
    id="nvrtc",
    marks=pytest.mark.skipif(not HERE.nvrtc, reason="NVRTC is not installed"),
)
SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdint>
#include <cmath>
namespace ours {
template <typename T, int V> __global__ void scale(const T* x, T* y, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n && n < INT32_MAX) y[i] = (T)((float)x[i] * V);
}
__global__ void plain(float* y) { __shared__ float room[64]; room[threadIdx.x] = *y; __syncthreads(); *y = room[63 - threadIdx.x]; }
}
extern "C" __global__ void linked(float* y) { *y = INFINITY + NAN + M_PI; }
"""  # noqa: E501
NAMES = ("linked", "ours::plain", "ours::scale<__half, 4>")


@pytest.mark.parametrize("toolkit", [NVRTC, NVCC])
def test_names_become_symbols_of_the_binary(toolkit: Toolkit, tmp_path: Path) -> None:
    made = compile_order(
        BuildOrder("cuda", SOURCE, (), "sm_90a", NAMES), toolkit, str(tmp_path), 120
    )
    assert made.image.startswith(b"\x7fELF")
    assert made.symbols["linked"] == "linked"
    assert "plain" in made.symbols["ours::plain"]
    assert "scaleI6__half" in made.symbols["ours::scale<__half, 4>"]
    kernels = split(made.ptx, "", made.log)
    assert set(made.symbols.values()) <= set(kernels)
    assert all(
        "REG:" in kernels[s].resources and ".entry" in kernels[s].ptx for s in made.symbols.values()
    )
    assert kernels[made.symbols["ours::plain"]].resources.endswith("SHARED:256")


@pytest.mark.parametrize("toolkit", [NVRTC, NVCC])
def test_what_is_wrong_is_said_in_the_compilers_words(toolkit: Toolkit, tmp_path: Path) -> None:
    text = "\n__global__ void k(float* y) { *y = foo; }"
    with pytest.raises(
        SourceRefused, match=r'kernel\.cu\(2\): error: identifier "foo" is undefined'
    ):
        compile_order(BuildOrder("cuda", text, (), "sm_80", ("k",)), toolkit, str(tmp_path), 120)


@pytest.mark.skipif(not (HERE.nvcc and HERE.nvrtc), reason="needs NVRTC and nvcc")
def test_text_with_host_code_goes_to_nvcc(tmp_path: Path) -> None:
    text = (
        "#include <vector>\n__global__ void k(float* y) { *y = 1; }\n"
        "int main() { k<<<1, 1>>>(nullptr); }\n"
    )
    assert (
        compile_order(BuildOrder("cuda", text, (), "sm_90a", ("k",)), HERE, str(tmp_path), 120)
        .symbols["k"]
        .startswith("_Z1k")
    )
    assert (tmp_path / "kernel.cubin").exists(), "nvcc wrote it"


def test_without_any_compiler_the_way_to_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(NativeError, match="pip install nvidia-cuda-nvrtc"):
        compile_order(BuildOrder("cuda", SOURCE), Toolkit(), str(tmp_path), 1)
    assert Toolkit().version == ""


def test_a_symbol_that_cannot_be_told_apart_is_refused() -> None:
    symbols = {
        "_Z5scaleIfLi4EEvPKT_",
        "_Z5scaleIdLi4EEvPKT_",
        "_Z5scalePf",
        "_ZN2ns7rescaleEPf",
        "scale_c",
    }
    assert nvcc.symbol_of("scale", symbols) == "_Z5scalePf"
    assert nvcc.symbol_of("ns::rescale", symbols) == "_ZN2ns7rescaleEPf"
    assert nvcc.symbol_of("scale_c", symbols) == "scale_c"
    with pytest.raises(NativeError, match="2 kernels that can be 'scale<float, 4>'"):
        nvcc.symbol_of("scale<float, 4>", symbols)


def test_architectures_carry_what_only_they_have() -> None:
    assert [architecture_of(c) for c in ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))] == [
        "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a",
    ]  # fmt: skip


@pytest.mark.skipif(not HERE.version, reason="neither NVRTC nor nvcc is here")
def test_a_build_here_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_NATIVE_CACHE", str(tmp_path))
    order = BuildOrder("cuda", "__global__ void k(float* y) { *y = 1; }", (), "sm_90a", ("k",))
    first = native.build_here(order)
    made = Path(first.path).stat().st_mtime_ns
    assert native.build_here(order) == first
    assert Path(first.path).stat().st_mtime_ns == made
    with pytest.raises(NativeError, match="the CUDA compiler refused the source"):
        native.build_here(replace(order, source="__global__ void k( {}"))
