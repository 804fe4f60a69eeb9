"""A task as the rest of the program sees it: facts about the reference, never its code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TensorSpec:
    """dtype is torch's name without the prefix ("float32"); stride in elements."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]
    nbytes: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Operator:
    """One operator of a task's graph, by its plain name ("sum").

    reads: the positions in the graph of the operators whose results it takes, -1 for an input, -2
    for a parameter or constant. axes: for a reduction or scan "all", "last" (the innermost),
    "inner" (others) or "mixed"; "" otherwise. extent: the number of elements along these axes; 0
    otherwise.
    """

    name: str
    reads: tuple[int, ...] = ()
    axes: str = ""
    extent: int = 0


@dataclass(frozen=True)
class Case:
    """One setting of a task. `arguments` are the keyword arguments of get_inputs/get_init_inputs.

    bytes_held: bytes of inputs, parameters and outputs. bytes_min: the bytes of them that a call
    has to move, each counted once; of a lookup table only the rows that are picked by the inputs
    drawn at opening. bytes_written: bytes of the outputs alone. operations: floating-point
    operations of the reference (torch's flop counter for contractions plus one per element of every
    other operator).
    """

    name: str
    weight: float = 1.0
    protected: bool = False
    held_out: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    bytes_held: int = 0
    bytes_min: int = 0
    bytes_written: int = 0
    operations: float = 0.0
    # screening medians, by baseline name
    baselines_us: dict[str, float] = field(default_factory=dict)
    roofline_time_us: float = 0.0
    families: tuple[str, ...] = ()
    dropped_families: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One opened task.

    digest: `task_digest`, the identity used in evaluation keys. neighbours: the files that it loads
    from its folder, as relative names and the SHA-256 of their contents. operators: the aten
    operators that one eager call executed, with counts. graph: the same call as a data-flow graph
    of plain operators, by which tasks are compared; () where it could not be traced, with the
    reason in the notes. notes: what a reader of results should know (dropped input families, a
    baseline that failed to compile …).
    """

    name: str
    digest: str
    source: str
    path: str = ""
    cases: tuple[Case, ...] = ()
    tolerance: str = "default"
    gradients: bool = False
    baselines: tuple[str, ...] = ()
    operators: dict[str, int] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    neighbours: dict[str, str] = field(default_factory=dict)
    graph: tuple[Operator, ...] = ()

    @property
    def visible_cases(self) -> tuple[Case, ...]:
        """The cases an author may see."""
        return tuple(c for c in self.cases if not c.held_out)


def task_digest(
    source: str, held_out: str = "", neighbours: Mapping[str, str] | None = None
) -> str:
    """Return the SHA-256 over a task's text, the text of its held-out companion, and the names and
    digests of the files that it loads from its folder: everything that defines the task."""
    named = "".join(f"\0{name}\0{digest}" for name, digest in sorted((neighbours or {}).items()))
    return hashlib.sha256(f"{source}\0{held_out}{named}".encode()).hexdigest()
