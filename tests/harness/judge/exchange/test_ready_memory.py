"""Whether outputs may have been there before their call, by the memory in which they lie."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.judge.exchange import known_outputs
from harness.judge.exchange.input_sets import Group, Half, InputFile, InputSet
from harness.judge.exchange.ready_memory import ReadyMemory
from harness.judge.exchange.worker_outputs import OutputPlace

PAGE = mmap.PAGESIZE

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/pagemap").exists(), reason="this kernel does not tell of pages"
)


def place(memory: mmap.mmap, first: int = 0, size: int = 4 * PAGE) -> list[OutputPlace]:
    """One output in a part of a mapping."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + first
    return [OutputPlace(address, size, None, {"nbytes": size})]


def own(pages: int = 4) -> mmap.mmap:
    """Memory that this process has written."""
    memory = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = b"x" * len(memory)
    return memory


def test_memory_of_an_earlier_output_is_written_in_the_call() -> None:
    memory, ready = own(), ReadyMemory(os.getpid())
    assert ready.bytes_ready([place(memory)]) == 4 * PAGE
    ready.note([place(memory)])
    assert ready.bytes_ready([place(memory)]) == 0
    assert ready.bytes_ready([place(memory, PAGE, PAGE)]) == 0
    ready.forget()
    assert ready.bytes_ready([place(memory)]) == 4 * PAGE


def test_parts_of_an_output_are_told_apart() -> None:
    memory, ready = own(8), ReadyMemory(os.getpid())
    ready.note([place(memory, PAGE, PAGE), place(memory, 3 * PAGE, PAGE)])
    assert ready.bytes_ready([place(memory, 0, 5 * PAGE)]) == 3 * PAGE
    ready.note([place(memory, PAGE // 2, 3 * PAGE)])  # from before the first into the second
    assert ready.bytes_ready([place(memory, 0, 5 * PAGE)]) == PAGE // 2 + PAGE
    ready.note([place(memory, 0, PAGE // 2), place(memory, 4 * PAGE, PAGE)])
    assert ready.bytes_ready([place(memory, 0, 5 * PAGE)]) == 0


@pytest.mark.parametrize("kind", ["file", "untouched", "zeros"])
def test_pages_that_nobody_wrote_are_no_ones_own(kind: str) -> None:
    if kind == "file":
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 4 * PAGE)
            file.flush()
            memory = mmap.mmap(file.fileno(), 4 * PAGE, flags=mmap.MAP_PRIVATE)
    else:
        memory = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if kind != "untouched":
        assert len(bytes(memory)) == 4 * PAGE  # looked at
    ready = ReadyMemory(os.getpid())
    ready.note([place(memory)])
    assert ready.bytes_ready([place(memory)]) == 4 * PAGE
    memory[PAGE : 2 * PAGE] = b"y" * PAGE
    assert ready.bytes_ready([place(memory)]) == 3 * PAGE
    assert ready.bytes_of_files([place(memory)]) == (3 * PAGE if kind == "file" else 0)


def test_empty_outputs_are_nowhere() -> None:
    nothing: list[Any] = [OutputPlace(0, 0, None, {"nbytes": 0})]
    ready = ReadyMemory(os.getpid())
    ready.note([nothing])
    assert ready.bytes_ready([nothing]) == 0


def drawn(outputs: list[torch.Tensor]) -> Half:
    sets = [InputSet(InputFile(), 0, {}, [each]) for each in outputs]
    return Half(0, [Group([each], [], []) for each in sets], sets[0], [])


def test_what_other_draws_have_as_well_can_be_ready() -> None:
    prefix = torch.arange(96.0)
    half = drawn([torch.cat([prefix, torch.randn(32)]) for _ in range(8)])
    # a sample of 128 blocks: five standard errors
    assert half.alike_bytes == pytest.approx(prefix.nbytes, rel=0.25)
    assert half.usual_bytes == pytest.approx(prefix.nbytes, rel=0.05)
    alone = drawn([torch.randn(8)])  # nobody knows
    assert alone.alike_bytes == alone.usual_bytes == 32
    assert drawn([torch.empty(0)] * 2).alike_bytes == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64, torch.bool])
def test_zeros_in_other_places_of_each_draw_can_be_there_before(dtype: torch.dtype) -> None:
    draws = [torch.randint(1, 1 << 20, (64, 512)).to(dtype) for _ in range(24)]
    if dtype == torch.bool:
        draws = [torch.randint(2, (64, 512)).to(dtype) for _ in range(24)]
    for each in draws:
        each[torch.randperm(64)[:48]] = 0
    half = drawn(draws)
    assert half.usual_bytes == pytest.approx(0.75 * draws[0].nbytes, rel=0.1)


def test_single_zeros_save_nobody_the_writing() -> None:
    half = drawn([torch.relu(torch.randn(64, 512)) for _ in range(24)])
    assert half.usual_bytes < 0.03 * 64 * 512 * 4


def test_what_draws_of_a_kind_have_in_common_can_be_ready_for_each_kind() -> None:
    kinds = [torch.randn(1 << 17) for _ in range(3)]
    half = drawn([kinds[draw % 3] for draw in range(24)])
    assert half.alike_bytes == kinds[0].nbytes
    # every element has a value that is as frequent as any other
    assert half.usual_bytes < 0.05 * kinds[0].nbytes


def test_blocks_are_compared_in_the_order_of_memory() -> None:
    """Seven planes of eight are the same in all draws, and the channels are last."""
    maps = torch.randn(7, 64, 64)
    draws = [torch.cat([torch.randn(1, 64, 64), maps]).permute(1, 2, 0) for _ in range(8)]
    nbytes = draws[0].nbytes
    leaf = {"stride": list(draws[0].stride())}
    in_memory, in_shape = (
        known_outputs.Draws([[each] for each in draws], [layout], [0.0]) for layout in (leaf, {})
    )
    assert in_memory.usual_bytes() == pytest.approx(0.875 * nbytes, rel=0.05)
    assert in_memory.alike_bytes() == pytest.approx(0.875 * nbytes, rel=0.2)
    assert in_shape.usual_bytes() < 0.2 * nbytes  # of eight draws, one has the least values
    assert in_shape.alike_bytes() == 0


@pytest.mark.parametrize(("unknown", "share"), [(1, 7 / 8), (2, 6 / 8), (3, 0.0)])
def test_most_of_a_block_saves_reading_it_from_elsewhere(unknown: int, share: float) -> None:
    draws = [torch.ones(4096, 8) for _ in range(24)]
    for draw in draws:
        draw[:, :unknown] = torch.randn(4096, unknown)
    outputs = [[draw] for draw in draws]
    nbytes = draws[0].nbytes
    assert known_outputs.Draws(outputs, [{}], [0.0]).alike_bytes() == 0
    parts = known_outputs.Draws(outputs, [{}], [0.0], parts=True)
    assert parts.alike_bytes() == pytest.approx(share * nbytes)
    # in one draw an unknown value is the usual one
    assert parts.usual_bytes() == pytest.approx(share * nbytes, abs=0.15 * nbytes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_values_within_the_limits_are_known(dtype: torch.dtype) -> None:
    prefix = torch.randn(4096).to(dtype)
    draws = [[prefix * (1 + 0.002 * draw)] for draw in range(8)]
    assert known_outputs.Draws(draws, [{}], [0.02]).usual_bytes() == prefix.nbytes
    assert known_outputs.Draws(draws, [{}], [0.0]).usual_bytes() < 0.2 * prefix.nbytes


def test_floats_of_eight_bits_are_compared_as_numbers() -> None:
    """Their codes are close where the numbers are not."""
    draws = [[(0.5 + torch.rand(1 << 14) / 2).to(torch.float8_e4m3fn)] for _ in range(24)]
    assert known_outputs.Draws(draws, [{}], [0.05]).usual_bytes() < 0.05 * (1 << 14)


@pytest.mark.parametrize("kinds", [64, 1024])
def test_many_kinds_of_outputs_have_a_twin_among_many_draws(kinds: int) -> None:
    values = torch.randn(kinds, 512)
    outputs = [[values[torch.randint(kinds, ())]] for _ in range(192)]
    found = known_outputs.Draws(outputs, [{}], [0.0])
    assert found.twin_bytes() == values[0].nbytes
    assert (found.alike_bytes() == values[0].nbytes) == (kinds == 64)
    assert found.usual_bytes() < 0.2 * values[0].nbytes


def test_one_pair_that_is_alike_by_chance_is_no_kind() -> None:
    outputs = [[torch.randn(512)] for _ in range(24)]
    outputs[3] = [torch.zeros(512)]
    outputs[7] = [torch.zeros(512)]
    assert known_outputs.Draws(outputs, [{}], [0.0]).twin_bytes() == 0


def test_no_output_lay_in_the_gaps_of_another() -> None:
    memory, ready = own(), ReadyMemory(os.getpid())
    (whole,) = place(memory)
    ready.note([[OutputPlace(whole.address, whole.size, [4, 1], {"nbytes": whole.size // 4})]])
    assert ready.bytes_ready([[whole]]) == whole.size
    ready.note([[whole]])
    assert ready.bytes_ready([[whole]]) == 0
