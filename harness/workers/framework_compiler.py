"""Refuses torch.compile in a candidate that could not use it while it is timed."""

from __future__ import annotations

from typing import Any

from .modules import LoadError

_REFUSAL = (
    "torch.compile cannot be used in a candidate for this device: it needs processes of its own, "
    "which a timed process may not start, and while outputs are checked it would not compile, so "
    "that other code would be timed than was checked. Write the fused loop yourself, in C++ with "
    "load_cpp, or call the function without torch.compile. What torch.compile makes of the "
    "reference is measured anyway, as the baseline `compile`"
)


def refuse() -> None:
    """Let torch.compile raise LoadError("library_call") in this process, unless it is called with
    another backend (torch's own functions call it with `eager`) or disabled.

    Under the dispatch modes that check a candidate, dynamo runs the original function."""
    import torch

    original = torch.compile

    def compile_(model: Any = None, **named: Any) -> Any:
        if named.get("backend") in (None, "inductor") and not named.get("disable"):
            raise LoadError("library_call", _REFUSAL)
        return original(model, **named)

    torch.compile = compile_
