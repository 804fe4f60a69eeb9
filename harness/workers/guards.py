"""Watch tensors and what lies around them, in the runs that check a candidate.

What `forward` allocates through the framework lies in guarded memory, and so do copies of inputs on
a device. What C++ allocates by itself is not seen here; malloc's own pattern covers it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ..wire.layouts import span
from ..wire.nesting import map_tensors, tensors_of
from . import guarded_memory, memory_faults, modules, placement
from .guarded_memory import FRESH

MOST_BYTES = 2 << 30  # in one burst; beyond it allocations are the framework's own again
_FACTORIES = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like
    new_zeros ones ones_like new_ones full full_like new_full clone
"""
_GUARDED = frozenset(_FACTORIES.split())


class Guard:
    """Watches the allocations inside the `with` block; `check` afterwards, while they are held."""

    def __init__(self) -> None:
        # label, the bytes around and of the tensor, its start and end in them
        self._surroundings: list[tuple[str, Any, int, int]] = []
        # label, an input's elements on the device, and what they have to be
        self._inputs: list[tuple[str, Any, Any]] = []
        self.input_addresses: set[int] = set()  # where inputs lie, which nobody may give more room
        self._bytes = 0
        self._mode: Any = None

    def __enter__(self) -> Guard:
        from torch.utils._python_dispatch import TorchDispatchMode

        allocate, give_room = self._allocate, self._give_room

        class GuardMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
            def __torch_dispatch__(
                self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                name, kwargs = str(func).split(".")[1], kwargs or {}
                if name not in _GUARDED:
                    return give_room(func, args, kwargs)
                return allocate(
                    name,
                    lambda **changed: func(*args, **{**kwargs, **changed}),
                    _is_empty_on_host(name, args, kwargs),
                )

        self._mode = GuardMode()  # type: ignore[no-untyped-call]
        self._mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._mode.__exit__(*details)

    def _allocate(self, name: str, make: Callable[..., Any], empty: bool) -> Any:
        """What `make` makes, in guarded memory. empty: its bytes are nobody's yet and lie on the
        host, so that its description is enough."""
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

    def _give_room(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], moves: Sequence[Any] = ()
    ) -> Any:
        """What an operator returns that may give a watched tensor more room, as `resize_` does or
        one that is told where its result goes: it lies in memory of the framework's own then.
        moves: tensors that already do."""
        try:
            return func(*args, **kwargs)
        except RuntimeError:  # shape and strides are the new ones by now
            short = next((t for t in tensors_of([args, kwargs]) if self._may_grow(t)), None)
            if short is None or any(short is each for each in moves):
                raise
        _move(short)
        return self._give_room(func, args, kwargs, (*moves, short))

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
        """Look at the surroundings of these bytes later and, where an original is given, whether
        the elements still equal it."""
        self._surroundings.append((label, around, start, end))
        if original is not None:
            self._inputs.append((label, elements, original))

    def check(self) -> None:
        """Let go of the memory. Raises LoadError("out_of_bounds") or LoadError("input_mutation")
        naming the tensor."""
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


def guard_inputs(value: Any, device: str, guard: Guard) -> Any:
    """The input set on the device, with every tensor watched under its number; on a CPU it stays
    where it is mapped."""
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
    """A copy of an input on a device, between margins; its layout is kept."""
    import torch

    count = span(tensor.shape, tensor.stride())
    nbytes = count * tensor.element_size()
    # a large one stays in the window, where nobody can write to it
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
    """The same bytes with a storage that they are all of, as that of a fresh tensor is: views that
    count from its start, and what needs more room, find there what they find in plain torch. On a
    device they are left as they are: nobody has tried it there."""
    import torch

    return torch.utils.dlpack.from_dlpack(flat) if flat.is_cpu else flat


def _storage_address(tensor: Any) -> int:
    """The address at which its storage begins."""
    return int(tensor.untyped_storage().data_ptr())


def _is_short(tensor: Any) -> bool:
    """Whether the storage ends before the tensor."""
    import torch

    plain = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    if not plain or tensor.is_nested:
        return False
    return _end_in_storage(tensor) > int(tensor.untyped_storage().nbytes())


def _move(tensor: Any) -> None:
    """To a storage in which it has room, with what the one before holds."""
    import torch

    before = tensor.untyped_storage()
    after = torch.empty(
        _end_in_storage(tensor), dtype=torch.uint8, device=tensor.device
    ).untyped_storage()
    after[: before.nbytes()].copy_(before)
    tensor.set_(after, tensor.storage_offset(), tensor.shape, tensor.stride())


def _end_in_storage(tensor: Any) -> int:
    """Bytes from the start of its storage to the end of a tensor."""
    return int(
        (tensor.storage_offset() + span(tensor.shape, tensor.stride())) * tensor.element_size()
    )


def _same_bytes(one: Any, other: Any) -> bool:
    """Of a flat tensor on a device, and one there or on the host."""
    import torch

    if other.device.type == "cpu":
        return _bytes_of(one.cpu()) == _bytes_of(other)
    return bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


def _is_empty_on_host(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call makes an empty tensor in plain host memory."""
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
    """The bytes of a flat CPU tensor."""
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
