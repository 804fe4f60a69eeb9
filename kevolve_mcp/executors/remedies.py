"""What enables evaluating where something is missing, in the words of every surface."""

from __future__ import annotations

TORCH = (
    "Install torch into the interpreter that shall evaluate (pip install torch) or beside KEvolve "
    "(pip install 'kevolve-mcp[torch]'), or name one that has it with KEVOLVE_PYTHON."
)
LINUX = (
    "Evaluate on a Linux machine over SSH: its command is ssh, its arguments are HOST uvx "
    "kevolve-mcp."
)
