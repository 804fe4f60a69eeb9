"""Memory whose surroundings are watched, for the runs that check a candidate.

What `forward` allocates through the framework lies between two pages that nobody may touch (on a
CPU) or between margins that are looked at afterwards (on a device), and is filled with a pattern
until something is written. A fault is explained: which tensor the address lies in or next to. What
C++ allocates by itself is not seen here; malloc's own pattern covers it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..sandbox import syscalls
from ..wire import buffers
from ..wire.layouts import LINE
from ..wire.memory_files import PAGE
from ..wire.nesting import changed, tensors_of
from . import modules, placement

FRESH = buffers.FILL  # of every byte that nobody has written
MARGIN = 16384  # bytes on each side of a tensor on a device
MOST_UNUSED_BYTES = 1 << 30  # between two bursts
MOST_BYTES = 2 << 30  # in one burst; beyond it allocations are the framework's own again
_FACTORIES = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones
    full full_like new_full clone
"""  # noqa: E501
_GUARDED = frozenset(_FACTORIES.split())
_PREFIX = "memory fault: "  # of the line in the log that explain() reads
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Region:
    """Bytes of one tensor at an address."""

    label: str
    start: int
    nbytes: int


class Guard:
    """Watches the allocations inside the `with` block; `check` afterwards, while they are held."""

    def __init__(self) -> None:
        # label, the bytes around and of the tensor, its start and end in them
        self._held: list[tuple[str, Any, int, int]] = []
        # label, an input's elements on the device, and what they have to be
        self._inputs: list[tuple[str, Any, Any]] = []
        self.given: set[int] = set()  # where inputs lie, which nobody may give more room
        self._bytes = 0
        self._mode: Any = None

    def __enter__(self) -> Guard:
        from torch.utils._python_dispatch import TorchDispatchMode

        guarded, growing = self._guarded, self._growing

        class GuardMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
            def __torch_dispatch__(
                self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                name, kwargs = str(func).split(".")[1], kwargs or {}
                if name not in _GUARDED:
                    return growing(func, args, kwargs)
                return guarded(
                    name,
                    lambda **changed: func(*args, **{**kwargs, **changed}),
                    _is_empty_on_host(name, args, kwargs),
                )

        self._mode = GuardMode()  # type: ignore[no-untyped-call]
        self._mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._mode.__exit__(*details)

    def _guarded(self, name: str, make: Callable[..., Any], described: bool) -> Any:
        """What `make` makes, in watched memory. described: its bytes are nobody's yet and lie on
        the host, so that its description is enough."""
        import torch

        made = make(device="meta") if described else make()
        on_host = described or made.device.type == "cpu"
        watched = on_host or made.device.type == "cuda"
        usual = type(made) is torch.Tensor and made.layout is torch.strided and watched
        nbytes = extent(made) * made.element_size() if usual else 0
        if nbytes == 0 or self._bytes + nbytes > MOST_BYTES:
            return make() if described else made
        self._bytes += nbytes
        label = f"a tensor from {name} ({str(made.dtype).removeprefix('torch.')}{list(made.shape)})"
        around, start = _host_bytes(nbytes) if on_host else _device_bytes(nbytes, made.device)
        self.hold(label, around, start, start + nbytes)
        flat = _own_storage(around[start : start + nbytes]).view(made.dtype)
        if on_host:
            watch(label, flat)
        out = flat.as_strided(made.shape, made.stride())
        return out if "empty" in name else out.copy_(made)

    def _growing(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], moved: Sequence[Any] = ()
    ) -> Any:
        """What an operator returns that may give a watched tensor more room, as `resize_` does or
        one that is told where its result goes: it lies in memory of the framework's own then.
        moved: those that already do."""
        try:
            return func(*args, **kwargs)
        except RuntimeError:  # shape and strides are the new ones by now
            some = tensors_of([args, kwargs])
            found = next((t for t in some if _is_short(t) and place(t) not in self.given), None)
            if found is None or any(found is each for each in moved):
                raise
        _move(found)
        return self._growing(func, args, kwargs, (*moved, found))

    def hold(
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
        self._held.append((label, around, start, end))
        if original is not None:
            self._inputs.append((label, elements, original))

    def check(self) -> None:
        """Raises LoadError("out_of_bounds") or LoadError("input_mutation") naming the tensor, and
        lets go of the memory."""
        for label, around, start, end in self._held:
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
        self._held.clear()
        self._inputs.clear()
        self.given.clear()
        forget()


def _own_storage(flat: Any) -> Any:
    """The same bytes with a storage that they are all of, as that of a fresh tensor is: views that
    count from its start, and what needs more room, find there what they find in plain torch. On a
    device they are left as they are: nobody has tried it there."""
    import torch

    return torch.utils.dlpack.from_dlpack(flat) if flat.is_cpu else flat


def place(tensor: Any) -> int:
    """The address at which its storage begins."""
    return int(tensor.untyped_storage().data_ptr())


def _is_short(tensor: Any) -> bool:
    """Whether the storage ends before the tensor."""
    import torch

    plain = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    if not plain or tensor.is_nested:
        return False
    return _reaches(tensor) > int(tensor.untyped_storage().nbytes())


def _move(tensor: Any) -> None:
    """To a storage in which it has room, with what the one before holds."""
    import torch

    before = tensor.untyped_storage()
    after = torch.empty(_reaches(tensor), dtype=torch.uint8, device=tensor.device).untyped_storage()
    after[: before.nbytes()].copy_(before)
    tensor.set_(after, tensor.storage_offset(), tensor.shape, tensor.stride())


def _reaches(tensor: Any) -> int:
    """Bytes from the start of its storage to the end of a tensor."""
    return int((tensor.storage_offset() + extent(tensor)) * tensor.element_size())


def _same_bytes(one: Any, other: Any) -> bool:
    """Of a flat tensor on a device, and one there or on the host."""
    import torch

    if other.device.type == "cpu":
        return bytes_of(one.cpu()) == bytes_of(other)
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


def bytes_of(flat: Any) -> bytes:
    """The bytes of a flat CPU tensor."""
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


@dataclass(frozen=True)
class _GuardedMemory:
    """Guarded host memory. inner: bytes between its protected pages."""

    inner: int
    memory: mmap.mmap
    address: int  # of the inner bytes

    @property
    def references(self) -> int:
        """Of this object and of the tensors that lie in the memory."""
        return sys.getrefcount(self.memory)


_mappings: list[_GuardedMemory] = []
_UNUSED = _GuardedMemory(PAGE, mmap.mmap(-1, PAGE), 0).references


def _host_bytes(nbytes: int) -> tuple[Any, int]:
    """The readable bytes of a mapping between two protected pages, and where in them a tensor
    starts so that it ends at the second one (up to its alignment). A mapping of this size that no
    tensor uses any more is taken again: fresh pages cost ten times what the kernel takes to fill
    them (seen with 64 MiB)."""
    import torch

    slack = -nbytes % LINE
    inner = -(-(nbytes + slack) // PAGE) * PAGE
    found = next((m for m in _mappings if m.inner == inner and m.references == _UNUSED), None)
    try:
        memory = (
            found.memory
            if found
            else mmap.mmap(-1, inner + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        )
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes for a tensor: {error.strerror}") from error
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    if found is None:
        found = _GuardedMemory(inner, memory, whole.data_ptr() + PAGE)
        _mappings.append(found)
        for offset in (0, PAGE + inner):
            protect(whole.data_ptr() + offset)
    else:
        protect(found.address, inner, mmap.PROT_READ | mmap.PROT_WRITE)
    return whole[PAGE : PAGE + inner].fill_(FRESH), inner - nbytes - slack


def rest() -> None:
    """Until it is taken again nobody may touch memory that no tensor uses: a pointer that a kernel
    has kept shows. Where there is much of it, it is given back."""
    unused = [m for m in _mappings if m.references == _UNUSED]
    if sum(m.inner for m in unused) > MOST_UNUSED_BYTES:
        _mappings[:] = [m for m in _mappings if m.references != _UNUSED]
        return
    for mapping in unused:
        protect(mapping.address, mapping.inner)


def release() -> None:
    """Give the memory back that is kept for tensors of the same size."""
    _mappings.clear()


def _device_bytes(nbytes: int, device: Any) -> tuple[Any, int]:
    import torch

    return torch.full(
        (MARGIN + -(-nbytes // 512) * 512 + MARGIN,), FRESH, dtype=torch.uint8, device=device
    ), MARGIN


def inputs(value: Any, device: str, guard: Guard) -> Any:
    """The input set on the device, with every tensor known by its number; on a CPU it stays where
    it is mapped."""
    number = 0

    def watched(tensor: Any) -> Any:
        nonlocal number
        label = f"input {number} ({str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)})"
        number += 1
        if placement.is_host(device):
            watch(label, tensor)
        else:
            tensor = _moved(label, tensor, device, guard)
        guard.given.add(place(tensor))
        return tensor

    return changed(value, watched)


def _moved(label: str, tensor: Any, device: str, guard: Guard) -> Any:
    """A copy of an input on a device, between margins; its layout is kept."""
    import torch

    count = extent(tensor)
    nbytes = count * tensor.element_size()
    # a large one stays in the window, where nobody can write to it
    if count == 0 or (tensor.is_cuda and nbytes > MOST_BYTES):
        return tensor.to(device)
    around, start = _device_bytes(nbytes, torch.device(device))
    flat, original = (
        _own_storage(around[start : start + nbytes]).view(tensor.dtype),
        tensor.as_strided((count,), (1,)),
    )
    flat.copy_(original)
    guard.hold(label, around, start, start + nbytes, flat, original)
    return flat.as_strided(tensor.shape, tensor.stride())


def extent(tensor: Any) -> int:
    """Elements between the first and the last of a tensor in memory, both counted."""
    return (
        1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        if tensor.numel()
        else 0
    )


# ---- faults --------------------------------------------------------------------------------------

_regions: list[Region] = []
_handler: Any = None  # a callback that the kernel may call must not be collected


def protect(address: int, nbytes: int = PAGE, allowed: int = 0) -> None:
    """Nobody may read or write these pages any more, or only what is `allowed`."""
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), allowed) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def watch(label: str, tensor: Any) -> None:
    """Name the tensor in the explanation of a fault."""
    _regions.append(Region(label, tensor.data_ptr(), extent(tensor) * tensor.element_size()))


def forget() -> None:
    """The tensors watched so far are gone."""
    _regions.clear()


def explain_faults() -> None:
    """From now on a segmentation fault writes one line to the log before it ends the process as
    usual."""
    global _handler

    def on_fault(number: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + 16).value  # si_addr
        wrote = None
        if platform.machine() == "x86_64":
            # the page fault's error code, bit 1
            wrote = bool(ctypes.c_uint64.from_address(context + 40 + 19 * 8).value & 2)
        os.write(2, f"\n{_PREFIX}{describe(address, wrote)}\n".encode())

    _handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(on_fault)
    once = 0x80000000  # SA_RESETHAND: the instruction faults again, and that ends the process
    action = syscalls.SignalAction(
        ctypes.cast(_handler, ctypes.c_void_p).value,
        flags=ctypes.c_int(4 | once).value,
    )
    _libc.sigaction(11, ctypes.byref(action), None)


def describe(address: int, wrote: bool | None) -> str:
    """Which watched tensor the address lies in or next to."""
    did = {True: "write to", False: "read of", None: "access to"}[wrote]
    near = min(
        _regions,
        key=lambda r: max(r.start - address, address - r.start - r.nbytes + 1, 0),
        default=None,
    )
    if near is None:
        return f"{did} address {address:#x}, next to no tensor"
    if near.start <= address < near.start + near.nbytes:
        return f"{did} byte {address - near.start} inside {near.label}"
    before = address < near.start
    distance = near.start - address if before else address - near.start - near.nbytes
    if distance > 1 << 20:
        return f"{did} address {address:#x}, next to no tensor"
    return (
        f"{did} memory {distance} bytes {'before the start' if before else 'after the end'} of "
        f"{near.label}"
    )


def explanation(log: str) -> str:
    """What on_fault wrote, from a worker's log; "" where nothing was."""
    lines = [line for line in log.splitlines() if line.startswith(_PREFIX)]
    return lines[-1].removeprefix(_PREFIX)[:300] if lines else ""
