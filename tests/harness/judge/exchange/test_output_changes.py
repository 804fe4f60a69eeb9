"""Outputs that their caller changes, in this very process."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

import pytest
import torch

from harness.judge.exchange import output_changes
from harness.judge.exchange.worker_outputs import OutputPlace
from harness.wire.layouts import contiguous_strides
from harness.workers import call_form


def shown(tensor: torch.Tensor) -> OutputPlace:
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = list(tensor.shape)
    stride = contiguous_strides(shape)
    leaf = {"shape": shape, "nbytes": tensor.nbytes, "dtype": dtype, "stride": stride, "offset": 0}
    if tensor.is_contiguous():
        return OutputPlace(tensor.data_ptr(), tensor.nbytes, None, leaf)
    size = call_form.spread_bytes(shape, list(tensor.stride()), tensor.element_size())
    return OutputPlace(tensor.data_ptr(), size, list(tensor.stride()), leaf)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool]
)
def test_outputs_are_overwritten_and_at_most_one_changed_slightly(
    dtype: torch.dtype,
) -> None:
    slight = 0
    for _ in range(40):
        some = [torch.zeros(70, 50, dtype=dtype) for _ in range(3)]
        output_changes.change(os.getpid(), [([shown(each)], ()) for each in some])
        counts = [int((each != 0).sum()) for each in some]
        assert all(count == 1 or count > 1500 for count in counts)
        assert counts.count(1) <= 1
        slight += 1 in counts
    assert 0 < slight < 40


def test_what_is_written_differs_from_output_to_output() -> None:
    large = [torch.zeros(output_changes.NOISE_BYTES, dtype=torch.int32) for _ in range(2)]
    for each in large:
        output_changes.overwrite(os.getpid(), shown(each))
    assert float((large[0] == 0).double().mean()) < 0.01
    assert float((large[0] == large[1]).double().mean()) < 0.01
    flags = torch.zeros(1000, dtype=torch.bool)
    output_changes.overwrite(os.getpid(), shown(flags))
    assert set(flags.view(torch.uint8).tolist()) == {0, 1}


def test_what_lies_between_the_elements_stays() -> None:
    whole = torch.zeros(8, 6)
    for _ in range(30):
        output_changes.change(os.getpid(), [([shown(whole.t()[::2])], ())])
    output_changes.overwrite(os.getpid(), shown(whole.t()[::2]))
    assert bool((whole[:, 1::2] == 0).all())
    assert bool((whole[:, ::2] != 0).all())
    assert bool((whole.t()[::2] != 0).any())


def test_some_are_left_alone() -> None:
    one, other, empty = torch.zeros(3), torch.zeros(3), torch.zeros(0)
    output_changes.change(os.getpid(), [([shown(one), shown(other), shown(empty)], [0])])
    assert bool((one == 0).all())
    assert bool((other != 0).any())


def test_a_change_is_the_value_of_another_element() -> None:
    given = torch.arange(1.0, 1001.0)
    for _ in range(40):
        changed = given.clone()
        output_changes.change(os.getpid(), [([shown(changed)], ())])
        where = (changed != given).nonzero()
        if len(where) > 1:  # overwritten
            continue
        value = float(changed[where[0, 0]])
        # or another exponent of the same, of 1 that of no number
        assert value in given or not 1 <= value <= 1e9


def test_where_nobody_may_write_an_error_says_so() -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 1) == 0
    leaf = {"shape": [4], "nbytes": 16}
    with pytest.raises(OSError) as raised:
        output_changes.change(os.getpid(), [([OutputPlace(address, 16, None, leaf)], ())])
    assert raised.value.errno == errno.EFAULT


def test_two_outputs_in_one_memory_are_found() -> None:
    whole, empty = torch.zeros(8), torch.zeros(0)
    parts = [shown(whole[:4]), shown(empty), shown(whole[4:]), shown(whole[3:5])]
    assert output_changes.find_overlap(parts[:3], [0, 1, 2]) is None
    assert output_changes.find_overlap(parts, [0, 1, 2, 3]) == (0, 3)
    assert output_changes.find_overlap(parts, [0, 1, 0, 0]) is None


def test_so_are_those_with_strides() -> None:
    whole = torch.zeros(6, 8)
    turned, part = shown(whole.t()), shown(whole[:3])
    assert output_changes.find_overlap([turned, part], [0, 1]) == (0, 1)
    assert output_changes.find_overlap([shown(whole), turned, shown(whole.t())], [0, 0, 2]) == (
        0,
        2,
    )
    even, odd, wide = shown(whole[:, ::2]), shown(whole[:, 1::2]), shown(whole[:, 1:4])
    assert output_changes.find_overlap([even, odd], [0, 1]) is None
    assert output_changes.find_overlap([even, odd, wide], [0, 1, 2]) == (0, 2)
    assert output_changes.find_overlap([shown(whole[:, :1].expand(6, 8)), odd], [0, 1]) is None
    assert output_changes.find_overlap([shown(whole[:, 1:2].expand(6, 8)), odd], [0, 1]) == (0, 1)


def test_expanded_outputs_and_those_of_eight_bits_are_changed() -> None:
    base = torch.zeros(4, 1)
    output_changes.overwrite(os.getpid(), shown(base.expand(4, 8)))
    assert int((base != 0).sum()) == 1
    eight, number = torch.zeros(4096).to(torch.float8_e4m3fn), torch.zeros(())
    output_changes.overwrite(os.getpid(), shown(eight))
    assert int((eight.view(torch.uint8) != 0).sum()) > 3000
    output_changes.change(os.getpid(), [([shown(number)], ())])
    assert number.view(torch.int32).item() != 0
