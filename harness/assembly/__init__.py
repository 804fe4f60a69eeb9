"""The inside of native code for the host: the innermost loops of each function, what they are made
of, what an iteration costs.

`inspect` runs where builds run, confined, on a library that was just built; `Inside` is what it
found, and crosses to the judge as JSON.
"""

from __future__ import annotations

from .inside import Body, CompiledFunction, Inside
from .inspecting import inspect
from .reading import read

__all__ = ["Body", "CompiledFunction", "Inside", "inspect", "read"]
