"""How a judge is reached: this machine now; other machines behind the same interface."""

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
