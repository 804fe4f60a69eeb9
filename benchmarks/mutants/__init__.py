"""Honest C++ kernels with their tasks, and mutants of them: each a transcription mistake made by
replacing a piece of text."""

from .kernel import Kernel
from .moves import MOVES
from .products import PRODUCTS
from .rows import ROWS

KERNELS: tuple[Kernel, ...] = (*ROWS, *PRODUCTS, *MOVES)

__all__ = ["KERNELS", "Kernel"]
