"""The C++ of the pages on CPU operators does what PyTorch does, tails and special values
included."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge import Library

from .test_content import blocks

torch = pytest.importorskip("torch")
F = torch.nn.functional
GXX = shutil.which("g++")
CPU = Path("/proc/cpuinfo")
AVX512 = CPU.exists() and "avx512vl" in CPU.read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(GXX is None or not AVX512, reason="needs g++ and AVX-512")

FUNCTIONS = {  # exported function -> page, all built together
    "cumsum": "scans_on_cpu",
    "cumsum_portable": "scans_on_cpu",
    "softmax": "softmax_on_cpu",
    "max_pool": "pooling_on_cpu",
    "avg_pool": "pooling_on_cpu",
    "argmax": "sort_and_top_k_on_cpu",
    "segment_sum": "segments_on_cpu",
    "causal_silu": "causal_conv_on_cpu",
    "conv3x3": "convolutions_on_cpu",
    "selective_scan": "selective_scans",
    "dropout": "random_numbers_on_cpu",
    "bmm_small": "small_batched_products_on_cpu",
    "linear_few": "skinny_and_grouped_products_on_cpu",
    "quantize_rows": "quantize_on_cpu",
    "rope_half": "rotary_on_cpu",
    "squares": "losses_on_cpu",
    "pair_dots": "interactions_on_cpu",
    "batch_norm": "normalization_other_axes_on_cpu",
    "square_plus_one": "masked_tails",
}
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """call(function, *arguments): tensors go as addresses, ints as int64, floats as float."""
    folder = tmp_path_factory.mktemp("cpu_examples")
    code = {
        (p.id.split("/")[1], text)
        for p, words, text in blocks(library, "cpp")
        if "compile" in words
    }
    # one file, each block in a namespace: the headers are read once
    includes, bodies = set[str](), dict[str, str]()
    for name, page in FUNCTIONS.items():
        (text,) = (t for p, t in code if p == page and f" {name}(" in t and 'extern "C"' in t)
        lines = text.splitlines()
        includes |= {line for line in lines if line.startswith("#include")}
        bodies[text] = "\n".join(line for line in lines if not line.startswith("#include"))
    parts = [
        *sorted(includes),
        *(f"namespace n{i} {{\n{body}\n}}" for i, body in enumerate(bodies.values())),
    ]
    source, out = folder / "examples.cpp", folder / "examples.so"
    source.write_text("\n".join(parts), encoding="utf-8")
    flags = ["-O1", "-march=native", "-std=c++17", "-fopenmp", "-fPIC", "-shared"]
    subprocess.run([str(GXX), *flags, str(source), "-lm", "-o", str(out)], check=True)
    loaded = ctypes.CDLL(str(out))
    loaded.squares.restype = ctypes.c_double

    def run(name: str, *arguments: Any) -> Any:
        kinds = {int: ctypes.c_int64, float: ctypes.c_float}
        given = [
            ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else kinds[type(a)](a)
            for a in arguments
        ]
        return getattr(loaded, name)(*given)

    return run


def filled(call: Call, name: str, out: Any, *arguments: Any) -> Any:
    """`out` after the call; it stands where an argument is None."""
    call(name, *(out if a is None else a for a in arguments))
    return out


def test_rows(call: Call) -> None:
    for n in (1, 15, 16, 17, 100):
        x = torch.randn(3, n)
        for name in ("cumsum", "cumsum_portable"):
            torch.testing.assert_close(
                filled(call, name, torch.empty_like(x), x, None, 3, n),
                x.cumsum(-1),
                rtol=1e-4,
                atol=1e-4,
            )
        torch.testing.assert_close(
            filled(call, "softmax", torch.empty_like(x), x, None, 3, n), torch.softmax(x, -1)
        )
        torch.testing.assert_close(
            filled(call, "square_plus_one", torch.empty_like(x), x, None, 3, n), x * x + 1
        )
        x[1, n // 2] = float("nan")
        assert torch.equal(
            filled(call, "argmax", torch.zeros(3, dtype=torch.int64), x, None, 3, n), x.argmax(-1)
        )


def test_pools_and_convolutions(call: Call) -> None:
    x = torch.randn(1, 8, 9, 33)
    x[0, 0, 4, 4] = float("nan")
    y = torch.empty(1, 8, 7, 31)
    torch.testing.assert_close(
        filled(call, "max_pool", y, x, None, 8, 9, 33, 3), F.max_pool2d(x, 3, 1), equal_nan=True
    )
    x = torch.randn(1, 8, 9, 33)
    torch.testing.assert_close(
        filled(call, "avg_pool", y, x, None, 8, 9, 33, 3),
        F.avg_pool2d(x, 3, 1),
        rtol=1e-4,
        atol=1e-5,
    )
    w = torch.randn(16, 8, 3, 3)
    y = torch.empty(1, 16, 9, 33)
    torch.testing.assert_close(
        filled(call, "conv3x3", y, x, w, None, 1, 8, 16, 9, 33),
        F.conv2d(x, w, padding=1),
        rtol=1e-4,
        atol=1e-4,
    )
    for length in (1, 3, 17):
        x, w, b = torch.randn(2, 5, length), torch.randn(5, 1, 4), torch.randn(5)
        expected = F.silu(F.conv1d(F.pad(x, (3, 0)), w, b, groups=5))
        y = filled(call, "causal_silu", torch.empty_like(x), x, w, b, None, 10, length, 5)
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


def test_products(call: Call) -> None:
    for n in (3, 8, 16):
        a, b = torch.randn(5, n, n), torch.randn(5, n, n)
        torch.testing.assert_close(
            filled(call, "bmm_small", torch.empty_like(a), a, b, None, 5, n),
            a @ b,
            rtol=1e-4,
            atol=1e-4,
        )
    w = torch.randn(24, 64)
    for rows in (1, 2, 4, 8):
        x = torch.randn(rows, 64)
        y = filled(call, "linear_few", torch.empty(rows, 24), x, w, None, rows, 24, 64)
        torch.testing.assert_close(y, x @ w.T, rtol=1e-4, atol=1e-4)
    x = torch.randn(3, 7, 32)
    i, j = torch.tril_indices(7, 7, -1)
    y = filled(call, "pair_dots", torch.empty(3, 21), x, None, 3, 7, 32)
    torch.testing.assert_close(y, (x @ x.transpose(1, 2))[:, i, j], rtol=1e-4, atol=1e-4)


def test_segments_losses_and_norms(call: Call) -> None:
    lengths = torch.tensor([0, 1, 16, 17, 40, 0])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    x = torch.randn(74)
    torch.testing.assert_close(
        filled(call, "segment_sum", torch.empty(6), x, offsets, None, 6),
        torch.segment_reduce(x, "sum", lengths=lengths),
    )
    a, b = torch.randn(10001), torch.randn(10001)
    assert call("squares", a, b, 10001) == pytest.approx(
        (a.double() - b.double()).square().sum().item(), rel=1e-6
    )
    x, w, b = torch.randn(3, 4, 21) + 100, torch.randn(4), torch.randn(4)
    y = filled(call, "batch_norm", torch.empty_like(x), x, w, b, None, 3, 4, 21, 1e-5)
    torch.testing.assert_close(y, F.batch_norm(x, None, None, w, b, True), rtol=1e-3, atol=1e-3)


def test_scan_of_states_and_rotation(call: Call) -> None:
    u, dt, skip = torch.randn(2, 5, 32), torch.rand(2, 5, 32), torch.randn(32)
    a, b, c = -torch.rand(32, 16), torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    state, rows = torch.zeros(2, 32, 16), []
    for t in range(5):
        state = torch.exp(dt[:, t, :, None] * a) * state + (dt * u)[:, t, :, None] * b[:, t, None]
        rows.append((state * c[:, t, None]).sum(-1) + skip * u[:, t])
    y = filled(call, "selective_scan", torch.empty_like(u), u, dt, a, b, c, skip, None, 2, 5, 32)
    torch.testing.assert_close(y, torch.stack(rows, 1), rtol=1e-4, atol=1e-5)
    x, angle = torch.randn(2, 6, 20), torch.rand(6, 10)
    first, second = x.chunk(2, -1)
    expected = torch.cat(
        [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1
    )
    for name, twist in (
        ("rope_half", lambda t: t),
        ("rope_pairs", lambda t: t.view(2, 6, 2, 10).transpose(-1, -2).reshape(2, 6, 20)),
    ):
        given = twist(x).contiguous()
        y = filled(call, name, torch.empty_like(x), given, angle.cos(), angle.sin(), None, 2, 6, 20)
        torch.testing.assert_close(y, twist(expected), rtol=1e-4, atol=1e-5)


def test_quantizing_and_dropping(call: Call) -> None:
    x, q, scale = torch.randn(4, 100), torch.empty(4, 100, dtype=torch.int8), torch.empty(4)
    call("quantize_rows", x, q, scale, 4, 100)
    assert ((q * scale[:, None] - x).abs() <= 0.5001 * scale[:, None]).all()
    x, y, again = torch.ones(100_003), torch.empty(100_003), torch.empty(64)
    call("dropout", x, y, 100_003, 7, 0.25)
    call("dropout", x, again, 64, 7, 0.25)
    assert torch.equal(y[:64], again)
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)
