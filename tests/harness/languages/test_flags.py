"""Flags of a candidate: those that optimize reach the compiler, those that load code or name files
do not, and the refusal teaches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.languages import flags
from tests.harness.conftest import Bench

BUILD = '_lib = load_cpp(SOURCE, defines={"UNROLL": PARAMS["UNROLL"]})'
REFUSED = (
    "-specs=/tmp/x.specs", "-specs=x", "--specs=x", "-fplugin=./x.so", "-fplugin-arg-x-y=z",
    "-fpass-plugin=x.so", "-B", "-B.", "-wrapper", "-wrapper,sh", "-Wl,-rpath=.", "-Wl,--wrap=x",
    "-Wa,-a", "-Wp,-MD,x", "-Wl", "@x", "@/etc/passwd", "-x", "-xassembler", "-include",
    "-include=x.h", "--include=x.h", "-imacros", "-o", "-ox", "-Xclang", "-Xlinker", "-Xassembler",
    "-Xpreprocessor", "-load", "-mllvm", "-I.", "-I/usr/include", "-iquote.", "-isystem.",
    "-idirafter.", "-L.", "-lx", "-l:x.a", "-fuse-ld=gold", "-fuse-ld=x", "-ld", "-T", "-Tx.ld",
    "-save-temps", "-save-temps=obj", "-dumpdir", "-dx", "-E", "-S", "-c", "-M", "-MD", "-MF",
    "-MFx", "-v", "-###", "--help", "-print-search-dirs", "-fdump-tree-all", "-fdump-tree-all=x",
    "-fopt-info-vec=x", "-fprofile-generate", "-fprofile-use=x", "-fauto-profile=x",
    "-fsanitize=address", "-ftest-coverage", "--coverage", "-fstack-usage", "-fcallgraph-info",
    "-fsave-optimization-record", "-gsplit-dwarf", "-fdebug-prefix-map=a=b", "-fmodules",
    "-fmodule-mapper=|sh", "-fdiagnostics-format=json-file", "-flto-partition=x", "-flto=8",
    "-foffload=x", "-static", "-nostdlib", "-nostartfiles", "-no-integrated-cpp", "--sysroot=.",
    "-isysroot", "--gcc-toolchain=x", "-resource-dir=x", "-ccbin=x", "-march=native\n", "-O2 -B.",
    "-O2\0", "", "-", "--", "x.o", "/tmp/x.o", "-DX Y", "-D", "-DX=a\nb", "-O3\n",
)  # fmt: skip
ACCEPTED = (
    "-O", "-O0", "-O1", "-O2", "-O3", "-Os", "-Og", "-Ofast", "-march=native", "-march=x86-64-v3",
    "-march=armv8.2-a+fp16", "-mtune=native", "-mcpu=neoverse-v2", "-mavx2", "-mavx512f",
    "-mno-avx512f", "-mfma", "-mf16c", "-msse4.2", "-mprefer-vector-width=512", "-mno-daz-ftz",
    "-mrecip", "-msve-vector-bits=256", "-ffast-math", "-fno-math-errno", "-fno-trapping-math",
    "-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-ffinite-math-only",
    "-fno-finite-math-only", "-ffp-contract=fast", "-ffp-contract=off",
    "-funsafe-math-optimizations", "-funroll-loops", "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize", "-ftree-vectorize", "-fno-semantic-interposition",
    "-fvisibility=hidden", "-flto", "-fomit-frame-pointer", "-fopenmp", "-fopenmp-simd",
    "-fopt-info-vec-missed", "-fvect-cost-model=unlimited", "-falign-loops=32", "-fno-exceptions",
    "-fno-rtti", "-fstrict-aliasing", "-fno-plt", "-fPIC", "-fno-builtin-memcpy",
    "-floop-nest-optimize", "-fprefetch-loop-arrays", "-fno-stack-protector", "-fpermissive",
    "-std=c++17", "-std=c++20", "-std=gnu++2b", "-DN=4", "-DTYPE=float", "-DTEXT=\"a b/c\"", "-UN",
    "-Wall", "-Wextra", "-Wno-unused", "-Werror=vla", "-w", "-g", "-g3", "-lm", "-lmvec",
    "-pthread", "-pipe", "-s", "--param=max-unroll-times=4", "-Rpass=loop-vectorize",
)  # fmt: skip
CUDA_REFUSED = (
    "-ccbin=x", "--compiler-bindir=x", "-Xcompiler=-B.", "--compiler-options=-specs=x",
    "-Xlinker=x", "-optf=x", "--options-file=x", "@x", "-include=x", "--pre-include=x", "-I/etc",
    "-I.", "-odir=x", "-o=x", "-objtemp", "--keep-dir=x", "-ldir=x", "-run", "--run", "-dryrun",
    "-time=x", "-arbin=x", "-x=c", "-Xptxas=-o,x", "--ptxas-options=--output-file=x", "-Xptxas=@x",
    "-DX=`id`", "-DX=$(id)", "-DX=\\", "-arch=native", "-O2\n", "-E", "-M", "-pch",
    "-Xptxas=" + "-warn-a" * 60 + "!", "-Xptxas=,",
    "--create-pch=x", "-Xnvlink=x", "-sanitize=x", "-fplugin=x", "",
)  # fmt: skip
CUDA_ACCEPTED = (
    "--use_fast_math", "-use_fast_math", "--ftz=true", "-ftz=false", "--prec-div=false",
    "--prec-sqrt=true", "--fmad=false", "-fmad=true", "--maxrregcount=64", "-maxrregcount=128",
    "-O3", "-std=c++17", "--std=c++20", "-DN=4", "-DT=__half", "-UN", "--restrict",
    "--extra-device-vectorization", "--expt-relaxed-constexpr", "--extended-lambda", "-lineinfo",
    "--generate-line-info", "-arch=sm_90a", "--gpu-architecture=compute_90", "--ptxas-options=-v",
    "-Xptxas=-O3", "-Xptxas=-dlcm=ca,-v", "-Xptxas=-warn-spills,-O3", "--diag-suppress=177", "-w",
)  # fmt: skip


@pytest.mark.parametrize(
    ("language", "refused", "accepted"),
    [("cpp", REFUSED, ACCEPTED), ("cuda", CUDA_REFUSED, CUDA_ACCEPTED)],
    ids=["cpp", "cuda"],
)
def test_what_is_refused_and_what_is_accepted(
    language: str, refused: tuple[str, ...], accepted: tuple[str, ...]
) -> None:
    assert not [flag for flag in refused if not flags.refusal(language, flag)]
    assert not [flag for flag in accepted if flags.refusal(language, flag)]


@pytest.mark.parametrize(
    "flag", ["-specs=x", "-fplugin=./x.so", "-B.", "-Wl,-z,now", "@x", "-include/etc/passwd"]
)
def test_a_refusal_is_a_failed_build_that_teaches(bench: Bench, correct: str, flag: str) -> None:
    found = bench.evaluate(correct.replace(BUILD, f"{BUILD[:-1]}, flags=({flag!r},))"))
    assert found.status == "build_failed", found.message
    assert found.signals[0].name == "compile_error"
    for said in (repr(flag), "-ffast-math", "Leave it out"):
        assert said in found.message


def test_a_gpu_s_compiler_is_guarded_as_well(bench: Bench, correct: str) -> None:
    order = (
        "from harness.native.building import BuildOrder, build\n"
        "build(BuildOrder('cuda', '', ('-ccbin=x',), 'sm_90'), None)\n"
    )
    found = bench.evaluate(order + correct)
    assert found.status == "build_failed", found.message
    assert "--use_fast_math" in found.message


def test_many_flags_at_once_are_taken(bench: Bench, correct: str) -> None:
    chosen = (
        "-O3",
        "-march=native",
        "-ffast-math",
        "-funroll-loops",
        "-fopenmp-simd",
        "-fno-finite-math-only",
        "-Wall",
        "-g",
        "-lm",
        "-pipe",
    )
    found = bench.evaluate(correct.replace(BUILD, f"{BUILD[:-1]}, flags={chosen!r})"))
    assert found.status == "correct", found.message


def test_flags_that_a_page_tells_to_try_are_accepted() -> None:
    page = (Path(__file__).parents[3] / "knowledge" / "guidance" / "compiler_flags.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `-")]
    found = [flag for cell in cells for flag in re.findall(r"(?<=[`\s])-[\w=-]+", cell)]
    assert len(found) > 8
    assert not [flag for flag in found if flags.refusal("cpp", flag)]
