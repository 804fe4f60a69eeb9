"""How many Triton kernels a candidate launches: who does the work. The count comes from the candidate's own process, so it informs
and proves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def watch() -> Callable[[], int]:
    """Count from now on; answers the count. Where this process has not loaded triton yet, there is nothing to count."""
    count = 0

    def counted(run: Any) -> Any:
        def launch(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            return run(*arguments, **named)

        return launch

    for module, name in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
        if (kind := getattr(sys.modules.get(module), name, None)) is not None:
            kind.run = counted(kind.run)
    return lambda: count
