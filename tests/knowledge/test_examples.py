"""The C++ of the pages: blocks marked `cpp compile` are complete, build as libraries and export
their functions; the ones with numerics do what they say."""

from __future__ import annotations

import ctypes
import math
import platform
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge import Library

from .test_content import blocks

GXX = shutil.which("g++")
CPU = Path("/proc/cpuinfo")
AVX2 = CPU.exists() and "avx2" in CPU.read_text(encoding="utf-8")
X86 = platform.machine() in ("x86_64", "AMD64")
FLAGS = [
    "-std=c++17",
    "-fopenmp",
    "-fPIC",
    "-Wall",
    "-Werror",
    "-Wno-unused-function",
    "-Wno-unused-but-set-variable",
    "-Wno-psabi",
]

pytestmark = pytest.mark.skipif(GXX is None, reason="g++ is not installed")


EXPORTED = re.compile(r'extern "C" [^;{}()]*?(\w+)\([^;{}]*\)\s*\{')


def test_complete_blocks_build_and_export(library: Library, tmp_path: Path) -> None:
    """Each is a library of its own that gives the functions that it promises."""
    wide = ["-mavx2", "-mfma", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq"] if X86 else []
    complete = [
        (page.id, code)
        for page, words, code in blocks(library, "cpp")
        if "compile" in words and ("x86" not in words or X86)
    ]
    assert len(complete) >= 45

    def build(number: int) -> str:
        page, code = complete[number]
        source, out = tmp_path / f"{number}.cpp", tmp_path / f"{number}.so"
        source.write_text(code, encoding="utf-8")
        done = subprocess.run(
            [str(GXX), "-shared", *FLAGS, *wide, str(source), "-o", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{page}: {done.stderr[-1000:]}"
        found, names = ctypes.CDLL(str(out)), EXPORTED.findall(code)
        missing = [name for name in names if not hasattr(found, name)]
        return f"{page}: exports {names}, without {missing}" if missing or not names else ""

    with ThreadPoolExecutor(2) as pool:
        assert [wrong for wrong in pool.map(build, range(len(complete))) if wrong] == []


@pytest.fixture(scope="module")
def built(
    library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], ctypes.CDLL]:
    """(page id, exported function) -> the block that defines it, as a loaded library."""
    folder = tmp_path_factory.mktemp("examples")

    def build(page_id: str, function: str) -> ctypes.CDLL:
        code = next(
            c
            for p, _, c in blocks(library, "cpp")
            if p.id == page_id and f" {function}(" in c and 'extern "C"' in c
        )
        source, out = folder / f"{function}.cpp", folder / f"{function}.so"
        source.write_text(code, encoding="utf-8")
        subprocess.run(
            [str(GXX), "-O2", "-march=native", "-shared", *FLAGS, str(source), "-o", str(out)],
            check=True,
        )
        return ctypes.CDLL(str(out))

    return build


def floats(values: list[float]) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * max(len(values), 1))(*values)


def long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def test_exponential_is_accurate_and_covers_the_ends(
    built: Callable[[str, str], ctypes.CDLL],
) -> None:
    lib = built("guidance/transcendentals", "exp_rows")
    grid = [struct.unpack("f", struct.pack("f", -87.0 + 175.0 * i / 4000))[0] for i in range(4001)]
    x = floats([*grid, -100.0, -math.inf, 89.5, math.inf, 0.0, math.nan])
    y = floats([0.0] * len(x))
    lib.exp_rows(x, y, long(len(x)))
    for value, result in zip(grid, y, strict=False):
        assert abs(result - math.exp(value)) <= 2.5e-7 * math.exp(value), value
    assert list(y)[4001:4006] == [0.0, 0.0, math.inf, math.inf, 1.0]
    assert math.isnan(y[4006])


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_online_logsumexp(built: Callable[[str, str], ctypes.CDLL], scale: float) -> None:
    lib = built("guidance/online_softmax", "logsumexp")
    lib.logsumexp.restype = ctypes.c_float
    draw = random.Random(1)
    for n in (1, 511, 512, 513, 2000):
        values = [draw.gauss(0, scale) for _ in range(n)]
        top = max(values)
        expected = top + math.log(sum(math.exp(v - top) for v in values))
        assert lib.logsumexp(floats(values), long(n)) == pytest.approx(expected, rel=2e-6, abs=2e-6)
    masked = [-math.inf] * 600
    assert lib.logsumexp(floats(masked), long(600)) == -math.inf
    assert lib.logsumexp(floats([*masked, 3.0]), long(601)) == pytest.approx(3.0)


def test_branch_free_search_agrees_with_counting(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/gathers_and_lookups", "bucketize")
    draw = random.Random(2)
    for m in (0, 1, 2, 3, 8, 13):
        borders = sorted(float(draw.randint(0, 9)) for _ in range(m))
        values = [float(draw.randint(-1, 10)) for _ in range(50)] + [math.inf, -math.inf]
        out = (ctypes.c_int64 * len(values))()
        lib.bucketize(floats(values), floats(borders), out, long(len(values)), long(m))
        assert list(out) == [sum(b < v for b in borders) for v in values]
        lib.bucketize(floats([math.nan]), floats(borders), out, long(1), long(m))
        assert out[0] == m


def test_reduction_covers_every_length(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/reductions", "span")
    lib.span.restype = ctypes.c_float
    for n in (1, 3, 63, 64, 65, 200):
        values = [float((7 * i) % 11) for i in range(n)]
        assert lib.span(floats(values), long(n)) == sum(values) - max(values)


def test_transpose_covers_partial_tiles(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/cache_blocking", "transpose")
    rows, cols = 19, 35
    y = floats([0.0] * rows * cols)
    lib.transpose(floats([float(i) for i in range(rows * cols)]), y, long(rows), long(cols))
    assert list(y) == [float(r * cols + c) for c in range(cols) for r in range(rows)]


@pytest.mark.skipif(not AVX2, reason="needs AVX2")
def test_transpose_in_registers(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/cache_blocking", "transpose8")
    for rows, cols in ((8, 8), (24, 16), (40, 32)):
        y = floats([0.0] * rows * cols)
        lib.transpose8(floats([float(i) for i in range(rows * cols)]), y, long(rows), long(cols))
        assert list(y) == [float(r * cols + c) for c in range(cols) for r in range(rows)]


@pytest.mark.skipif(not AVX2, reason="needs AVX2")
def test_dot_in_chains_covers_every_length(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/vectorization", "dot")
    lib.dot.restype = ctypes.c_float
    for n in (0, 1, 63, 64, 65, 200):
        a, b = [float(i % 7) for i in range(n)], [float(i % 5) for i in range(n)]
        assert lib.dot(floats(a), floats(b), long(n)) == sum(map(float.__mul__, a, b))


@pytest.mark.skipif(not AVX2, reason="needs AVX2")
def test_sum_of_squares_covers_every_length(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("hardware/cpu/x86/avx2", "sum_squares")
    lib.sum_squares.restype = ctypes.c_float
    for n in (0, 1, 7, 8, 31, 32, 45):
        values = [float(i % 7) for i in range(n)]
        assert lib.sum_squares(floats(values), long(n)) == sum(v * v for v in values)


def test_matrix_tile(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/matrix_multiply", "tile")
    k, lda, ldc = 5, 7, 40
    a, b = [float(i % 13 - 6) for i in range(8 * lda)], [float(i % 7 - 3) for i in range(k * 32)]
    c = floats([1.0] * 8 * ldc)
    lib.tile(floats(a), long(lda), floats(b), c, long(ldc), long(k))
    for i in range(8):
        for j in range(32):
            assert c[i * ldc + j] == 1.0 + sum(a[i * lda + p] * b[p * 32 + j] for p in range(k))
        assert c[i * ldc + 32] == 1.0


def test_bfloat16_rounds_to_nearest_even(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/half_precision", "silu_gate")
    half = ctypes.c_uint16
    one, odd = 0x3F80, 0x3F81  # 1 and 1 + 2^-7: the product 1 + 2^-6 + 2^-14 rounds down to 0x3F82
    cases = [(one, one, 0x3F80), (odd, odd, 0x3F82), (0x7F80, one, 0x7F80), (0xFF80, one, 0xFF80)]
    a, b, y = ((half * 5)() for _ in range(3))
    for i, (left, right, _) in enumerate(cases):
        a[i], b[i] = left, right
    a[4], b[4] = 0x7F81, one  # NaN
    lib.silu_gate(a, b, y, long(5))
    assert list(y)[:4] == [expected for *_, expected in cases]
    assert y[4] & 0x7F80 == 0x7F80
    assert y[4] & 0x7F


def test_fixed_and_general_paths_agree(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/dispatch_by_shape", "normalize")
    for cols in (31, 32, 64):
        x = [float(i % 5 - 2) for i in range(3 * cols)]
        y = floats([0.0] * len(x))
        lib.normalize(floats(x), y, long(3), long(cols))
        for r in range(3):
            row = x[r * cols : (r + 1) * cols]
            for c in range(cols):
                assert y[r * cols + c] == pytest.approx(
                    row[c] / (sum(v * v for v in row) + 1e-6), rel=1e-5
                )


def test_fused_norm(built: Callable[[str, str], ctypes.CDLL]) -> None:
    lib = built("guidance/fusion_and_memory_traffic", "rmsnorm_residual")
    cols = 37
    x, res, w = ([math.sin(i * k) for i in range(cols)] for k in (1.0, 2.0, 3.0))
    y = floats([0.0] * cols)
    lib.rmsnorm_residual(
        floats(x), floats(res), floats(w), y, long(1), long(cols), ctypes.c_float(1e-6)
    )
    total = [a + b for a, b in zip(x, res, strict=True)]
    scale = 1 / math.sqrt(sum(t * t for t in total) / cols + 1e-6)
    assert list(y) == pytest.approx(
        [t * scale * v for t, v in zip(total, w, strict=True)], rel=1e-5
    )
