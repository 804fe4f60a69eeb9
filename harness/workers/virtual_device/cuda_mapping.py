"""A substitute for a missing device: `device="cuda"`, `.cuda()` and torch.cuda.* of a candidate are
mapped to tensors in host memory.

Only what the host code of kernels commonly uses is mapped: the place of tensors, the name and
properties of the device, streams, events and synchronization. What would need an implementation
(graphs, memory statistics) is not imitated; such calls fail as they do without a device.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

_ZEROED_BYTES = 64 << 20  # larger memory comes directly from the system and is zero already
_MAPPED = ("cuda", "hip")  # kinds of torch devices

Device = dict[str, Any]  # of Architecture.describe_device; plain JSON because it is sent as JSON


def install(device: Device, *, zero: bool) -> None:
    """Install the mapping for the rest of this process. zero: make uninitialized memory zero, so
    that host code which reads a kernel's results behaves the same every time."""
    _patch_cuda(device)
    mode = _mode(zero)
    _follow_into_backward(mode)
    mode().__enter__()


def _follow_into_backward(mode: Any) -> None:
    """Apply the mapping to a candidate's `backward` too: torch disables modes while it handles
    torch.autograd.grad itself."""
    import torch

    for owner in (torch.autograd, getattr(torch.autograd, "graph", None)):
        run = getattr(owner, "_engine_run_backward", None)
        if run is None:
            continue

        def mapped(*arguments: Any, _run: Any = run, **named: Any) -> Any:
            with mode():
                return _run(*arguments, **named)

        owner._engine_run_backward = mapped  # type: ignore[union-attr]


def _mode(zero: bool) -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    cuda = torch.device("cuda", 0)
    fresh = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty}
    answers = {"is_cuda": True, "is_cpu": False, "device": cuda}
    unchanged = {torch.Tensor.cuda, torch.Tensor.pin_memory}

    def on_host(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type in _MAPPED else value
        return "cpu" if isinstance(value, str) and value.split(":")[0] in _MAPPED else value

    class Mapped(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            name = getattr(func, "__name__", "")
            if name == "__get__":
                member = getattr(getattr(func, "__self__", None), "__name__", "")
                return answers[member] if member in answers else func(*args, **kwargs)
            if func in unchanged:
                return args[0]
            if name in ("get_device", "record_stream"):
                return 0 if name == "get_device" else None
            if "device" in kwargs:
                kwargs["device"] = on_host(kwargs["device"])
                if isinstance(kwargs["device"], int):
                    kwargs["device"] = "cpu"
            kwargs.pop("pin_memory", None)
            if any(isinstance(a, (torch.device, str)) for a in args):
                args = tuple(on_host(a) for a in args)
            result = func(*args, **kwargs)
            if zero and func in fresh and result.untyped_storage().nbytes() <= _ZEROED_BYTES:
                result.zero_()
            return result

    return Mapped


def _patch_cuda(device: Device) -> None:
    import torch

    major, minor = device["capability"]
    properties = SimpleNamespace(
        name=device["name"],
        major=major,
        minor=minor,
        multi_processor_count=device["multiprocessors"],
        total_memory=device["memory"],
        warp_size=device["warp_size"],
        max_threads_per_multi_processor=device["threads"],
        max_threads_per_block=1024,
        regs_per_multiprocessor=device["registers"],
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=device["shared_block"],
        shared_memory_per_multiprocessor=device["shared"],
        L2_cache_size=device["cache"],
        gcnArchName=device["gcn"],
        is_integrated=False,
    )
    stream = _Stream()
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: device["name"],
        "get_device_capability": lambda *_: (major, minor),
        "get_device_properties": lambda *_: properties,
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda *_: (device["memory"], device["memory"]),
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "stream": lambda *_: contextlib.nullcontext(),
        "Stream": _Stream,
        "Event": _Event,
        "device": lambda *_: contextlib.nullcontext(),
        "device_of": lambda *_: contextlib.nullcontext(),
        **dict.fromkeys(
            ("init", "_lazy_init", "synchronize", "set_device", "set_stream", "empty_cache"),
            _nothing,
        ),
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
    if device["gcn"]:
        torch.version.hip = torch.version.hip or "compiled for, not here"
    elif torch.version.cuda is None:
        torch.version.cuda = "compiled for, not here"


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: there is nothing to wait for, to choose or to free."""


class _Stream:
    """A stream in which all work is already done."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    wait_stream = wait_event = synchronize = record_event = _nothing

    def query(self) -> bool:
        return True


class _Event:
    """An event that has happened. Any two are a millisecond apart, so that loops which divide by
    the time between them end."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    record = wait = synchronize = _nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0
