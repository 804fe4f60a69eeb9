"""The Gluon of its page compiles for the GPUs that it names. The loop of the Hopper kernel stands
alone there; here it gets its surroundings."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from knowledge import Library

from .test_content import blocks
from .test_triton_examples import loaded

triton = pytest.importorskip("triton")
runtime = pytest.importorskip("triton.experimental.gluon._runtime")

HEADER = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
"""
HOPPER = """
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_init, warpgroup_mma_wait)


@gluon.jit
def mm(a_desc, b_desc, c_desc, K, STAGES: gl.constexpr):
    BM: gl.constexpr = a_desc.block_shape[0]
    BK: gl.constexpr = a_desc.block_shape[1]
    BN: gl.constexpr = b_desc.block_shape[1]
    a = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BK, BN], b_desc.layout)
    c = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_shape, c_desc.layout)
    ready = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(ready.index(i), count=1)
    steps, m, n = gl.cdiv(K, BK), gl.program_id(0) * BM, gl.program_id(1) * BN
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(ready.index(i), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_copy_global_to_shared(a_desc, [m, i * BK], ready.index(i), a.index(i))
        tma.async_copy_global_to_shared(b_desc, [i * BK, n], ready.index(i), b.index(i))
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, BN, 16])
    acc = warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, layout))
{loop}
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m, n], c)
    tma.store_wait(0)
"""


def code_of(library: Library, word: str) -> str:
    (found,) = (c for p, _, c in blocks(library, "python") if p.id.endswith("/gluon") and word in c)
    return found


def build(code: str, signature: dict[str, str], constants: dict[str, Any], **how: Any) -> Any:
    family, _, arch = how.pop("target").partition(":")
    kernel = loaded(HEADER + code, how.pop("folder")).mm
    types = {name: "constexpr" if name in constants else t for name, t in signature.items()}
    types |= dict.fromkeys(constants, "constexpr")
    assert types.keys() == set(kernel.arg_names)
    types = {name: types[name] for name in kernel.arg_names}
    target = triton.backends.compiler.GPUTarget(
        family, int(arch) if arch.isdigit() else arch, 32 if family == "cuda" else 64
    )
    # of arguments as torch allocates them: aligned, below 2 GiB, of sizes that 16 divides
    known = {
        "*bf16": [["tt.divisibility", 16], ["tt.pointer_range", 32]],
        "i32": [["tt.divisibility", 16]],
    }
    attributes = {(i,): known[kind] for i, kind in enumerate(types.values()) if kind in known}
    source = runtime.GluonASTSource(kernel, types, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=target, options=how)


def descriptor(rows: int, columns: int) -> str:
    from triton.experimental.gluon import language as gl

    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.bfloat16)
    return f"tensordesc<bf16[{rows}, {columns}],{layout!r}>"


DESCRIPTORS = {"a_desc": (128, 64), "b_desc": (64, 128), "c_desc": (128, 128)}


def of_descriptors() -> dict[str, str]:
    return {name: descriptor(*shape) for name, shape in DESCRIPTORS.items()} | {"K": "i32"}


def test_the_hopper_loop(library: Library, tmp_path: Path) -> None:
    loop = textwrap.indent(code_of(library, "acc = warpgroup_mma("), "    ")
    made = build(
        HOPPER.replace("{loop}", loop), of_descriptors(), {"STAGES": 4}, target="cuda:90",
        folder=tmp_path, num_warps=8,
    )  # fmt: skip
    assert "wgmma.mma_async" in made.asm["ptx"]
    assert "cp.async.bulk.tensor" in made.asm["ptx"]


def test_the_blackwell_kernel(library: Library, tmp_path: Path) -> None:
    made = build(
        code_of(library, "tcgen05_commit(done)"), of_descriptors(), {"STAGES": 4},
        target="cuda:100", folder=tmp_path, num_warps=4,
    )  # fmt: skip
    assert "tcgen05.mma" in made.asm["ptx"]
    # what the page says of it
    assert (made.metadata.shared, made.metadata.tmem_size) == (164044, 128)


def test_the_gfx950_kernel(library: Library, tmp_path: Path) -> None:
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "N": "i32", "K": "i32"}
    made = build(
        code_of(library, "AMDMFMALayout(version=4"), signature, {"BM": 128, "BN": 128, "BK": 64},
        target="hip:gfx950", folder=tmp_path, num_warps=4,
    )  # fmt: skip
    assert re.search(r"buffer_load_dwordx4 .* lds", made.asm["amdgcn"])
