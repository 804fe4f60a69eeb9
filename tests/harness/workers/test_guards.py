"""Accesses beside a tensor end a checking run and are named; what is left unwritten shows."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.workers import guarded_memory, guards, memory_faults, modules
from harness.workers.memory_faults import describe
from tests.harness.conftest import Bench

LOOP = "y[i * m + j] = std::tanh(x[i * m + j]) * w[j] + s;"
SUM = "for (int64_t j = 0; j < m; j++) s += x[i * m + j];"


@pytest.mark.parametrize(
    ("old", "new", "signal", "words"),
    [
        (LOOP, f"{{ ((float*)x)[3] = 1; {LOOP} }}", "crash.input_mutation",
         "write to byte 12 inside input 0 (float32[16, 96])"),
        (SUM, f"{SUM} s += x[n * m + 64];", "crash.out_of_bounds",
         "after the end of input 0 (float32[16, 96])"),
        (SUM, f"{SUM} s += x[-600];", "crash.out_of_bounds",
         "before the start of input 0 (float32[16, 96])"),
        (LOOP, f"{LOOP} y[n * m + 64] = 1;", "crash.out_of_bounds",
         "write to memory 256 bytes after the end of a tensor from empty_like (float32[16, 96])"),
        (LOOP, f"{LOOP} y[-1] = 1;", "crash.out_of_bounds",
         "before a tensor from empty_like (float32[16, 96]) was written"),
        (SUM, f"{SUM} s += x[-1];", "wrong.", ""),
    ],
)  # fmt: skip
def test_what_is_touched_beside_a_tensor_is_named(
    bench: Bench, correct: str, old: str, new: str, signal: str, words: str
) -> None:
    assert old in correct
    found = bench.evaluate(correct.replace(old, new, 1))
    assert any(s.name.startswith(signal) for s in found.signals), found.message
    assert words in found.message


def test_allocations_keep_shape_layout_and_contents() -> None:
    with guards.Guard() as guard:
        made = [
            torch.empty(3, 5),
            torch.zeros(7, dtype=torch.int64),
            torch.empty_strided((4, 4), (1, 4)),
            torch.full((2, 3), 2.5, dtype=torch.float16),
            torch.randn(4, 6).T.clone(),
            torch.ones(0),
        ]
    assert [(tuple(t.shape), t.stride()) for t in made[:3]] == [
        ((3, 5), (5, 1)),
        ((7,), (1,)),
        ((4, 4), (1, 4)),
    ]
    assert made[0].view(torch.uint8).eq(guarded_memory.FRESH).all()
    assert made[1].eq(0).all()
    assert made[3].eq(2.5).all()
    guard.check()


def test_a_storage_is_the_tensors_own_bytes() -> None:
    with guards.Guard() as guard:
        made = torch.empty(3, 5)
        assert (made.storage_offset(), made.untyped_storage().nbytes()) == (0, 60)
        torch.as_strided(made, (3, 5), (5, 1), 0).fill_(2)
        assert made.eq(2).all()
        with pytest.raises(RuntimeError, match="out of bounds"):
            torch.as_strided(made, (3, 6), (6, 1), 0)
        guard.check()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_what_needs_more_room_lies_in_the_frameworks_own_memory() -> None:
    wanted = torch.randn(30, 40)
    with guards.Guard() as guard:
        grown = torch.empty(2).fill_(3)
        grown.resize_(30, 40)
        assert grown.flatten()[:2].eq(3).all()
        grown.copy_(wanted)
        part = torch.empty(4)[1:]
        part.resize_as_(wanted).copy_(wanted)
        result = torch.empty(1)
        torch.mul(wanted, 2, out=result)
        values, places = torch.empty(1), torch.empty(1, dtype=torch.int64)
        torch.max(wanted, dim=1, out=(values, places))
        with pytest.raises(RuntimeError, match="size of tensor"):
            torch.empty(2).add_(wanted)
        guard.check()
    assert torch.equal(grown, wanted)
    assert torch.equal(part, wanted)
    assert torch.equal(result, wanted * 2)
    assert torch.equal(wanted.gather(1, places[:, None])[:, 0], values)


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, found = line.split()[:2]
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= address < high:
            return found
    return ""


def test_memory_serves_again_only_when_nobody_uses_it() -> None:
    guarded_memory.release()
    with guards.Guard() as guard:
        first = torch.empty(5000)
        first.fill_(3)
        guard.check()
        view, address = first[1:2], first.data_ptr()
        del first
        guarded_memory.protect_unused()
        other = torch.empty(5000)  # the first one's memory is still looked at
        assert other.data_ptr() != address
        assert float(view) == 3
        guard.check()
        del view
        guarded_memory.protect_unused()
        assert permissions(address).startswith("---")
        again = torch.empty_like(other)
        assert again.data_ptr() == address
        assert again.view(torch.uint8).eq(guarded_memory.FRESH).all()
        guard.check()
        del again, other
    guarded_memory.release()
    assert guarded_memory._mappings == []


def test_much_unused_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_memory, "MOST_UNUSED_BYTES", 100_000)
    guarded_memory.release()
    with guards.Guard() as guard:
        for count in range(10_000, 60_000, 10_000):
            torch.empty(count)
            guard.check()
        guarded_memory.protect_unused()
    assert guarded_memory._mappings == []


def test_what_is_no_plain_tensor_is_made_as_ever() -> None:
    with guards.Guard() as guard:
        assert torch.empty_like(torch.ones(2, 2).to_sparse()).is_sparse
        assert torch.empty(2, 3, device="meta").is_meta
        guard.check()


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_nobody_gives_an_input_more_room(device: str) -> None:
    with guards.Guard() as guard:
        (given,) = guards.guard_inputs([torch.from_dlpack(torch.ones(4))], device, guard)  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match="not resizable"):
            given.resize_(5)


def write(tensor: torch.Tensor, place: int) -> None:
    """One of its elements, or what lies there, as native code does."""
    ctypes.c_float.from_address(tensor.data_ptr() + 4 * place).value = 9


def test_a_margin_that_was_written_is_named() -> None:
    with guards.Guard() as guard:
        write(torch.empty(5), 5)
        with pytest.raises(modules.LoadError, match="after a tensor from empty"):
            guard.check()


def test_faults_are_placed() -> None:
    tensor = torch.zeros(4)
    memory_faults.watch("input 0", tensor)
    start = tensor.data_ptr()
    assert describe(start + 4, True) == "write to byte 4 inside input 0"
    assert describe(start + 20, False) == "read of memory 4 bytes after the end of input 0"
    assert describe(start - 8, None) == "access to memory 8 bytes before the start of input 0"
    memory_faults.forget()
    assert "next to no tensor" in describe(start, True)


def copied(guard: guards.Guard) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs as a device gets them: copies between margins. "cpu:0" stands for one."""
    plain = [torch.randn(16, 96), torch.randn(24, 16).T, 3]
    one, other, number = guards.guard_inputs(plain, "cpu:0", guard)
    assert torch.equal(one, plain[0])
    assert torch.equal(other, plain[1])
    assert (other.stride(), number) == (plain[1].stride(), 3)
    return one, other


def test_copies_on_a_device_keep_values_and_layout() -> None:
    guard = guards.Guard()
    copied(guard)
    guard.check()


@pytest.mark.parametrize(
    ("offset", "kind", "words"),
    [
        (3, "input_mutation", "input 0 (float32[16, 96]) was written"),
        (16 * 96, "out_of_bounds", "memory after input 0"),
        (-1, "out_of_bounds", "memory before input 0"),
    ],
)
def test_writes_to_and_beside_copies_on_a_device_are_named(
    offset: int, kind: str, words: str
) -> None:
    guard = guards.Guard()
    one, _ = copied(guard)
    write(one, offset)
    with pytest.raises(modules.LoadError) as found:
        guard.check()
    assert found.value.kind == kind
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("named", "change"),
    [
        ("shape", lambda given: given[0].unsqueeze_(0)),
        ("requires_grad", lambda given: given[0].requires_grad_()),
        ("strides", lambda given: given[0].t_()),
        ("number of tensors", lambda given: given.pop()),
    ],
)
def test_a_callers_tensors_stay_as_they_are(named: str, change: Any) -> None:
    given = [torch.zeros(4, 4), torch.zeros(3)]
    before = guards.appearance(given)
    guards.refuse_changes(before, given)
    change(given)
    with pytest.raises(modules.LoadError, match=named):
        guards.refuse_changes(before, given)
