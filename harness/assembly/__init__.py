"""Analysis of native code for the host: the innermost loops of each function, their instructions,
and the cost of an iteration.

`inspect` runs in the build sandbox on a library that was just built. Its result, `Inside`, goes to
the judge as JSON.
"""

from __future__ import annotations

from .inside import Body, CompiledFunction, Inside
from .inspecting import inspect
from .reading import read

__all__ = ["Body", "CompiledFunction", "Inside", "inspect", "read"]
