"""Guards that watch tensors and the memory around them, in the runs that check a candidate.

Tensors that `forward` allocates through the framework are put into guarded memory, and so are
copies of inputs on a device. Allocations made by C++ itself are not seen here; malloc's own pattern
covers them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..wire.layouts import span
from ..wire.nesting import map_tensors, tensors_of
from . import guarded_memory, memory_faults, modules, placement
from .guarded_memory import FRESH

MOST_BYTES = 2 << 30  # guarded in one burst; further allocations are the framework's own
_FACTORIES = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like
    new_zeros ones ones_like new_ones full full_like new_full clone
"""
_GUARDED = frozenset(_FACTORIES.split())
_SHOWN = "shape", "strides", "memory", "requires_grad", "grad"


class Guard:
    """Watches the allocations inside the `with` block. Call `check` afterwards, while they are
    still held."""

    def __init__(self) -> None:
        # label, the bytes of the tensor with its margins, its start and end in them
        self._surroundings: list[tuple[str, Any, int, int]] = []
        # label, an input's elements on the device, and their original values
        self._inputs: list[tuple[str, Any, Any]] = []
        self.input_addresses: set[int] = set()  # of the inputs' storages, which may not grow
        self._bytes = 0
        self._mode: Any = None

    def __enter__(self) -> Guard:
        self._mode = _guard_mode()(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._mode.__exit__(*details)

    def allocate(self, name: str, make: Callable[..., Any], empty: bool) -> Any:
        """Return the tensor that `make` creates, but in guarded memory. empty: it is an
        uninitialized host tensor, so only its description is needed."""
        import torch

        model = make(device="meta") if empty else make()
        on_host = empty or model.device.type == "cpu"
        plain = type(model) is torch.Tensor and model.layout is torch.strided
        guardable = plain and (on_host or model.device.type == "cuda")
        nbytes = span(model.shape, model.stride()) * model.element_size() if guardable else 0
        if nbytes == 0 or self._bytes + nbytes > MOST_BYTES:
            return make() if empty else model
        self._bytes += nbytes
        label = f"a tensor from {name} ({_describe(model)})"
        around, start = (
            guarded_memory.host_bytes(nbytes)
            if on_host
            else guarded_memory.device_bytes(nbytes, model.device)
        )
        self.watch(label, around, start, start + nbytes)
        flat = _as_fresh_storage(around[start : start + nbytes]).view(model.dtype)
        if on_host:
            memory_faults.watch(label, flat)
        out = flat.as_strided(model.shape, model.stride())
        return out if "empty" in name else out.copy_(model)

    def give_room(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], moves: Sequence[Any] = ()
    ) -> Any:
        """Run an operator that may enlarge a watched tensor, as `resize_` or an `out=` argument
        does. Such a tensor is moved to the framework's own memory. moves: tensors already moved."""
        try:
            return func(*args, **kwargs)
        except RuntimeError:  # the tensor already has its new shape and strides
            short = next((t for t in tensors_of([args, kwargs]) if self._may_grow(t)), None)
            if short is None or any(short is each for each in moves):
                raise
        _move(short)
        return self.give_room(func, args, kwargs, (*moves, short))

    def _may_grow(self, tensor: Any) -> bool:
        return _is_short(tensor) and _storage_address(tensor) not in self.input_addresses

    def watch(
        self,
        label: str,
        around: Any,
        start: int,
        end: int,
        elements: Any = None,
        original: Any = None,
    ) -> None:
        """Have `check` look at the memory around these bytes and, where an original is given,
        compare the elements with it."""
        self._surroundings.append((label, around, start, end))
        if original is not None:
            self._inputs.append((label, elements, original))

    def check(self) -> None:
        """Check and release the memory. Raises LoadError("out_of_bounds") or
        LoadError("input_mutation") naming the tensor."""
        for label, around, start, end in self._surroundings:
            for side, margin in (("before", around[:start]), ("after", around[end:])):
                if margin.numel() and bool((margin != FRESH).any()):
                    raise modules.LoadError(
                        "out_of_bounds",
                        f"memory {side} {label} was written: an index out of its bounds",
                    )
        for label, elements, original in self._inputs:
            if not _same_bytes(elements, original):
                raise modules.LoadError(
                    "input_mutation", f"{label} was written; inputs are read-only"
                )
        self._surroundings.clear()
        self._inputs.clear()
        self.input_addresses.clear()
        memory_faults.forget()


@functools.cache  # making a class takes as long as a small call
def _guard_mode() -> Callable[[Guard], Any]:
    """Return the class of modes that hand allocations to a guard."""
    from .watching_mode import WatchingMode, is_higher_order

    class GuardMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __init__(self, guard: Guard) -> None:
            super().__init__()
            self._guard = guard

        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if is_higher_order(func):
                return self.run(func, args, kwargs)
            name = str(func).split(".")[1]  # whoever has implemented it
            if name not in _GUARDED:
                return self._guard.give_room(func, args, kwargs)
            return self._guard.allocate(
                name,
                lambda **changed: func(*args, **{**kwargs, **changed}),
                _is_empty_on_host(name, args, kwargs),
            )

    return GuardMode


def appearance(value: Any) -> list[tuple[Any, ...]]:
    """Return of each tensor what a call could change besides its values, in the order of _SHOWN."""
    return [
        (tuple(t.shape), t.stride(), t.data_ptr(), t.requires_grad, t.grad is None)
        for t in tensors_of(value)
    ]


def refuse_changes(before: Sequence[tuple[Any, ...]], value: Any) -> None:
    """Raise LoadError("input_mutation") where tensors do not appear as before, or are others."""
    after = appearance(value)
    if len(after) == len(before):
        names = (
            f"{name} of an input"
            for one, other in zip(before, after, strict=True)
            for name, was, now in zip(_SHOWN, one, other, strict=True)
            if was != now
        )
        changed = next(names, "")
    else:
        changed = "number of tensors in the inputs"
    if changed:
        raise modules.LoadError(
            "input_mutation",
            f"the {changed} changed; a caller's tensors stay as they are: use a view or a copy",
        )


def guard_inputs(value: Any, device: str, guard: Guard) -> Any:
    """Return the input set on the device, with every tensor watched under its number. On a CPU the
    tensors stay where they are mapped."""
    number = 0

    def guarded(tensor: Any) -> Any:
        nonlocal number
        label = f"input {number} ({_describe(tensor)})"
        number += 1
        if placement.is_host(device):
            memory_faults.watch(label, tensor)
        else:
            tensor = _copy_to_device(label, tensor, device, guard)
        guard.input_addresses.add(_storage_address(tensor))
        return tensor

    return map_tensors(value, guarded)


def _copy_to_device(label: str, tensor: Any, device: str, guard: Guard) -> Any:
    """Copy an input to a device, between margins and with its layout."""
    import torch

    count = span(tensor.shape, tensor.stride())
    nbytes = count * tensor.element_size()
    # a large input stays in the window, which is read-only
    if count == 0 or (tensor.is_cuda and nbytes > MOST_BYTES):
        return tensor.to(device)
    around, start = guarded_memory.device_bytes(nbytes, torch.device(device))
    flat, original = (
        _as_fresh_storage(around[start : start + nbytes]).view(tensor.dtype),
        tensor.as_strided((count,), (1,)),
    )
    flat.copy_(original)
    guard.watch(label, around, start, start + nbytes, flat, original)
    return flat.as_strided(tensor.shape, tensor.stride())


def _describe(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _as_fresh_storage(flat: Any) -> Any:
    """Return the bytes as a tensor with a storage of exactly these bytes, as a new tensor has.
    Views by offsets from the storage's start, and operators that enlarge it, then behave as in
    plain torch."""
    import torch

    # by a capsule: a tensor itself would wait for streams
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(flat))  # type: ignore[attr-defined]


def _storage_address(tensor: Any) -> int:
    """Return the address of a tensor's storage."""
    return int(tensor.untyped_storage().data_ptr())


def _is_short(tensor: Any) -> bool:
    """Return whether the storage ends before the tensor does."""
    import torch

    plain = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    if not plain or tensor.is_nested:
        return False
    return _end_in_storage(tensor) > int(tensor.untyped_storage().nbytes())


def _move(tensor: Any) -> None:
    """Move a tensor to a storage that is large enough, and copy the contents of the old one."""
    import torch

    before = tensor.untyped_storage()
    after = torch.empty(
        _end_in_storage(tensor), dtype=torch.uint8, device=tensor.device
    ).untyped_storage()
    after[: before.nbytes()].copy_(before)
    tensor.set_(after, tensor.storage_offset(), tensor.shape, tensor.stride())


def _end_in_storage(tensor: Any) -> int:
    """Return the bytes from the start of its storage to the end of a tensor."""
    return int(
        (tensor.storage_offset() + span(tensor.shape, tensor.stride())) * tensor.element_size()
    )


def _same_bytes(one: Any, other: Any) -> bool:
    """Compare a flat tensor on a device with one on the device or on the host."""
    import torch

    if other.device.type == "cpu":
        return _bytes_of(one.cpu()) == _bytes_of(other)
    return bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


def _is_empty_on_host(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether a call creates an uninitialized tensor in plain host memory."""
    if "empty" not in name or kwargs.get("pin_memory"):
        return False
    import torch

    device, like = kwargs.get("device"), args[0] if args else None
    if isinstance(like, torch.Tensor):
        if like.layout is not torch.strided or like.is_quantized or like.is_nested:
            return False
        device = device or like.device
    return device is None or device.type == "cpu"


def _bytes_of(flat: Any) -> bytes:
    """Return the bytes of a flat CPU tensor."""
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
