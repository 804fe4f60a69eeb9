"""Inputs and what is expected for them, as the judge holds them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..workers import buffers
from . import oracle

if TYPE_CHECKING:
    import torch


class InputFile:
    """A sealed file of inputs; closed when nobody refers to it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @cached_property
    def view(self) -> memoryview:
        """Its bytes."""
        return memoryview(buffers.mapped(self.fd))

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass
class InputSet:
    """Where one call's inputs lie, and their layout; expected outputs and the framework's own (checking sets) as mapped tensors.

    allowed: what each output may be off by on exactly these inputs (checking sets). finite: of the expected outputs.
    """

    file: InputFile
    base: int
    layout: buffers.Layout
    expected: list[torch.Tensor]
    family: str = "dense"
    finite: bool = True
    framework: list[torch.Tensor] = field(default_factory=list)
    allowed: list[oracle.Allowance] = field(default_factory=list)


@dataclass
class Group:
    """The sets of one timed burst, in one file: mapping a file takes longer than a small call. expected: of each output, one behind the
    other for all sets. framework: the framework's own, likewise, of outputs that are not floating; None of others."""

    sets: list[InputSet]
    expected: list[torch.Tensor]
    framework: list[torch.Tensor | None]
