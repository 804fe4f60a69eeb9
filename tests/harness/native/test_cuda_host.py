"""The host side of load_cuda: sizes, arguments and errors, with a small C library in place of the
driver."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import native
from harness.native import NativeError, find_compiler, read_kernels
from harness.native.kernels import split_instance

DATA = Path(__file__).parents[2] / "data" / "cuda"
SOURCE = r"""
#include <cuda_fp16.h>
extern "C" __global__ void mix(const float* __restrict__ x, float* y, int64_t n, int i, float s, double d, bool b, int8_t c,
                               short h, __half z, unsigned u) {}
extern "C" __global__ void none() {}
__global__ void unknown(Parameters p) {}
__global__ void absent(float* y) {}
template <typename T, int WIDTH = 4> __global__ void scale(const T* x, T factor, T (*y)[WIDTH]) {}
template <typename T> __global__ void halve(const T* x, T factor) {}
"""  # noqa: E501


class OnDevice(torch.Tensor):
    """A tensor in host memory that says it is on the first GPU."""

    def get_device(self) -> int:
        return 0


def on_device(values: Any, **options: Any) -> Any:
    return torch.tensor(values, **options).as_subclass(OnDevice)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    library = tmp_path_factory.mktemp("driver") / "libfake.so"
    subprocess.run(
        [compiler, "-x", "c", "-shared", "-fPIC", str(DATA / "fake_driver.c"), "-o", str(library)],
        check=True,
    )
    fake = ctypes.CDLL(str(library))
    fake.fake_log.restype = ctypes.c_char_p
    fake.path = str(library)
    return fake


@pytest.fixture
def orders() -> list[native.BuildOrder]:
    return []


@pytest.fixture
def library(
    fake: Any, orders: list[native.BuildOrder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[native.CudaLibrary]:
    """SOURCE, "compiled" for a device that torch says is there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0x1234567890)
    )
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)

    def builder(order: native.BuildOrder) -> native.BuiltFile:
        orders.append(order)
        path = tmp_path / f"{len(orders)}.cubin"
        path.write_bytes(b"\x7fELF and so on")
        return native.BuiltFile(
            str(path), {name: name.split("<")[0] for name in order.names}, str(len(orders))
        )

    native.use_builder(builder)
    native.use_driver(native.CudaDriver(fake.path))
    fake.fake_forget()
    yield native.load_cuda(SOURCE, flags=("--use_fast_math",), defines={"N": 4, "FAST": True})
    native.use_builder(None)
    native.use_driver(None)
    native.observe_launches(None)


def said(fake: Any) -> list[str]:
    return [line for line in fake.fake_log().decode().split(";") if line]


def mix(library: native.CudaLibrary, *changes: tuple[int, Any]) -> Any:
    """Launch the kernel that has an argument of every kind, some of them replaced; its output."""
    y = on_device([0.0, 0.0, 0.0])
    arguments = [
        on_device([1.0, 2.0, 3.0]),
        y,
        3,
        -5,
        2.5,
        0.125,
        True,
        -7,
        -300,
        1.0,
        4_000_000_000,
    ]
    for index, value in changes:
        arguments[index] = value
    library.mix[(2, 3), 128](*arguments)
    return y


def test_a_build_is_ordered_for_the_device_with_every_function(
    library: native.CudaLibrary, orders: list[native.BuildOrder]
) -> None:
    (order,) = orders
    assert (order.language, order.architecture) == ("cuda", "sm_90a")
    assert order.flags == ("--use_fast_math", "-DN=4", "-DFAST=1")
    assert order.names == ("mix", "none", "unknown", "absent")


def test_the_driver_reads_the_arguments_that_were_given(
    fake: Any, library: native.CudaLibrary
) -> None:
    y = mix(library)
    assert y.tolist() == [2.5, 5.0, 7.5]
    assert said(fake) == [
        "context",
        "mix n=3 i=-5 d=0.125 b=1 c=-7 h=-300 z=3c00 u=4000000000",
        "launch 2,3,1 128,1,1 shared=0 stream=0x1234567890",
    ]


def test_sizes_are_ints_or_up_to_three_of_them(fake: Any, library: native.CudaLibrary) -> None:
    for sizes, expected in (
        ((5, 32), "5,1,1 32,1,1 shared=0"),
        (((5, 6, 7), (8, 4, 2), 1000), "5,6,7 8,4,2 shared=1000"),
        ((torch.Size([5, 2]), (32,)), "5,2,1 32,1,1 shared=0"),
    ):
        fake.fake_forget()
        library.none[sizes]()
        assert said(fake)[-1] == f"launch {expected} stream=0x1234567890"


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (5, r"\[grid, block\] or \[grid, block, shared_bytes\]"),
        ((0, 32), "grid is a positive int .* got 0 .*do not launch"),
        ((1, (32, 32, 2)), "at most 1024 threads, got 32 x 32 x 2 = 2048"),
        ((1, 2.5), "block is a positive int"),
        (((1, 70000), 32), "a grid has at most"),
        ((1, 32, -1), "shared_bytes is a number of bytes"),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_the_driver_sees_them(
    library: native.CudaLibrary, sizes: Any, words: str
) -> None:
    with pytest.raises(NativeError, match=words):
        library.none[sizes]()


def test_more_shared_memory_is_asked_for_once(fake: Any, library: native.CudaLibrary) -> None:
    library.none[1, 32, 49152]()
    assert not [line for line in said(fake) if "attribute" in line]
    library.none[1, 32, 100_000]()
    library.none[1, 32, 90_000]()
    assert [line for line in said(fake) if "attribute" in line] == ["attribute 8=100000"]
    with pytest.raises(
        NativeError,
        match="asking for 300000 bytes of dynamic shared memory failed: CUDA_ERROR_INVALID_VALUE",
    ):
        library.none[1, 32, 300_000]()


@pytest.mark.parametrize(
    ("index", "value", "words"),
    [
        (0, [1.0], "argument 1: a pointer takes a tensor, an address or None, got list"),
        (
            0,
            torch.tensor([1.0, 2.0, 3.0]),
            "argument 1: the tensor is on cpu, the kernel runs on cuda:0; move it there",
        ),
        (
            0,
            on_device([1.0, 2.0, 3.0], dtype=torch.float64),
            "got torch.float64, the kernel takes torch.float32",
        ),
        (0, on_device([[1.0, 2.0], [3.0, 4.0]]).t(), "not contiguous"),
        (2, 3.0, "argument 3: 3.0 is not a valid int64; the kernel is mix"),
        (3, 1 << 33, "argument 4: 8589934592 is not a valid int32"),
        (7, 300, "argument 8: 300 is not a valid int8"),
        (4, "fast", "argument 5: 'fast' is not a valid float"),
        (9, 1e9, "argument 10: 1000000000.0 is not a valid half"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    library: native.CudaLibrary, index: int, value: Any, words: str
) -> None:
    with pytest.raises(NativeError, match=words):
        mix(library, (index, value))
    mix(library)


def test_addresses_and_none_are_pointers(library: native.CudaLibrary) -> None:
    x = on_device([4.0, 5.0, 6.0])
    assert mix(library, (0, x.data_ptr())).tolist() == [10.0, 12.5, 15.0]
    mix(library, (0, None), (2, 0))


def test_mistakes_of_names_and_counts_say_what_there_is(library: native.CudaLibrary) -> None:
    with pytest.raises(
        NativeError, match=r"mix\(float\*, float\*, int64, .* takes 11 arguments, got 1"
    ):
        library.mix[1, 1](1)
    with pytest.raises(
        NativeError,
        match=r"no __global__ function 'mixed' .*found: mix, none, unknown, absent, scale, halve",
    ):
        _ = library.mixed
    with pytest.raises(NativeError, match=r"library\.none\[grid, block\]"):
        library.none()
    with pytest.raises(NativeError, match=r"'scale' is a template: .*\"scale<T, WIDTH>\""):
        _ = library.scale
    with pytest.raises(NativeError, match=r"arguments of unknown cannot be read .* signatures"):
        library.unknown[1, 1](1)
    with pytest.raises(NativeError, match="looking 'absent' up failed: CUDA_ERROR_NOT_FOUND"):
        library.absent[1, 1](None)


def test_an_instance_of_a_template_is_a_build_of_its_own(
    library: native.CudaLibrary, orders: list[native.BuildOrder]
) -> None:
    kernel = library["halve<float>"]
    assert library["halve<float>"] is kernel
    assert [o.names for o in orders[1:]] == [("halve<float>",)]
    assert str(kernel.prototype) == "halve(float*, float)"
    assert [letter for letter, _ in library["halve<__half>"].prototype.arguments] == ["p", "h"]  # type: ignore[union-attr]


def test_what_the_driver_says_is_passed_on_with_a_fix(
    fake: Any, library: native.CudaLibrary
) -> None:
    fake.fake_fail_next_launch(700)
    with pytest.raises(
        NativeError,
        match=(
            r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\): an illegal memory access .*outside its tensors"
        ),
    ):
        mix(library)
    fake.fake_fail_next_launch(12345)
    with pytest.raises(NativeError, match=r"the launch failed: \? \(12345\): unknown"):
        mix(library)


def test_a_thread_without_a_context_gets_one(fake: Any, library: native.CudaLibrary) -> None:
    mix(library)
    fake.fake_lose_context()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(mix(library)))
    thread.start()
    thread.join()
    assert found[0].tolist() == [2.5, 5.0, 7.5]


def test_launches_are_observed_before_they_happen_and_can_be_stopped(
    fake: Any, library: native.CudaLibrary
) -> None:
    seen: list[native.Launch] = []
    native.observe_launches(lambda launch: bool(seen.append(launch)))
    mix(library)
    assert not said(fake)
    (launch,) = seen
    assert (launch.name, launch.image, launch.grid, launch.block) == (
        "mix",
        "1",
        (2, 3, 1),
        (128, 1, 1),
    )
    assert launch.signature[:4] == ("float*", "float*", "int64", "int32")


def test_without_a_driver_or_a_device_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NativeError, match="no NVIDIA driver here"):
        native.CudaDriver("libcuda_of_nobody.so.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NativeError, match="needs an NVIDIA GPU"):
        native.load_cuda(SOURCE)


def test_kernels_are_read_whatever_stands_around_them() -> None:
    found = read_kernels(r"""
#include <cuda_fp16.h>
// __global__ void commented(int x) {}
extern "C" {
__global__ void in_block(float* __restrict__ const x, const int64_t n) { if (n) { x[0] = 1; } }
}
namespace outer { namespace inner {
template <typename T, int N>
static __global__ __launch_bounds__(N, 2) void bounded(const T* __restrict__ x, const __grid_constant__ int n) {}
} }
struct S { int a; };
__global__ void
__cluster_dims__(2, 1, 1) clustered(const float4* x, unsigned long long n)
{ }
""")  # noqa: E501
    assert {name: (k.plain, k.parameters) for name, k in found.items()} == {
        "in_block": (True, None),
        "outer::inner::bounded": (False, ("T", "N")),
        "clustered": (False, None),
    }
    assert str(found["in_block"].prototype()) == "in_block(float*, int64)"
    name, values = split_instance("outer::inner::bounded<__half, (1 < 2) ? 64 : 32>")
    assert (name, values[0], len(values)) == ("outer::inner::bounded", "__half", 2)
    assert str(found[name].prototype(values)) == "outer::inner::bounded(__half*, int32)"
    assert str(found["clustered"].prototype()) == "clustered(float4*, int64)"


def test_a_signature_of_unknown_letters_is_refused(library: native.CudaLibrary) -> None:
    with pytest.raises(NativeError, match="has the letter 'x'; known letters: p pointer"):
        native.load_cuda(SOURCE, signatures={"unknown": "px"})
    given = native.load_cuda(SOURCE, signatures={"unknown": "pl"})
    assert str(given.unknown.prototype) == "unknown(*, int64)"
