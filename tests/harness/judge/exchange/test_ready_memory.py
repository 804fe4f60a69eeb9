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
    return [OutputPlace(address, size, None, {})]


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
    nothing: list[Any] = [OutputPlace(0, 0, None, {})]
    ready = ReadyMemory(os.getpid())
    ready.note([nothing])
    assert ready.bytes_ready([nothing]) == 0


def test_what_other_draws_have_as_well_can_be_ready() -> None:
    prefix = torch.arange(6.0)
    sets = [
        InputSet(InputFile(), 0, {}, [torch.cat([prefix, torch.full((2,), float(draw))])])
        for draw in range(3)
    ]
    half = Half(0, [Group([each], [], []) for each in sets], sets[0], [])
    assert half.alike_bytes == prefix.nbytes
    alone = Half(0, [Group(sets[:1], [], [])], sets[0], [])  # nobody knows
    assert alone.alike_bytes == prefix.nbytes + 8
