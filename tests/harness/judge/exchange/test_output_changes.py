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


def shown(tensor: torch.Tensor) -> OutputPlace:
    leaf = {"shape": list(tensor.shape), "nbytes": tensor.nbytes}
    strides = None if tensor.is_contiguous() else list(tensor.stride())
    return OutputPlace(tensor.data_ptr(), tensor.nbytes, strides, leaf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_one_element_of_each_is_changed(dtype: torch.dtype) -> None:
    some = [torch.zeros(7, 5, dtype=dtype) for _ in range(output_changes.MOST_CHANGED)]
    output_changes.change(os.getpid(), [([shown(each)], ()) for each in some])
    assert all(int((each != 0).sum()) == 1 for each in some)


def test_what_lies_between_the_elements_stays() -> None:
    whole = torch.zeros(8, 6)
    for _ in range(30):
        output_changes.change(os.getpid(), [([shown(whole.t()[::2])], ())])
    assert bool((whole[:, 1::2] == 0).all())
    assert bool((whole.t()[::2] != 0).any())


def test_some_are_left_alone() -> None:
    one, other, empty = torch.zeros(3), torch.zeros(3), torch.zeros(0)
    output_changes.change(os.getpid(), [([shown(one), shown(other), shown(empty)], [0])])
    assert bool((one == 0).all())
    assert int((other != 0).sum()) == 1


def test_a_change_is_the_value_of_another_element() -> None:
    given = torch.arange(1.0, 1001.0)
    for _ in range(20):
        changed = given.clone()
        output_changes.change(os.getpid(), [([shown(changed)], ())])
        where = (changed != given).nonzero()
        assert len(where) == 1
        value = float(changed[where[0, 0]])
        assert value in given or abs(value) > 1e9 or value < 1  # or another exponent, of the same


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
