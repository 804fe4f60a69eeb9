"""How a judge is reached: on this machine, or on others behind the same interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .base import Executor, Progress, ProgressEvent
    from .fake import FakeExecutor
    from .interpreters import find_interpreters
    from .local import LocalExecutor

__all__ = [
    "Executor",
    "FakeExecutor",
    "LocalExecutor",
    "Progress",
    "ProgressEvent",
    "find_interpreters",
]

__getattr__ = loader(
    __name__,
    {
        "base": (
            "Executor",
            "Progress",
            "ProgressEvent",
        ),
        "fake": ("FakeExecutor",),
        "interpreters": ("find_interpreters",),
        "local": ("LocalExecutor",),
    },
)
