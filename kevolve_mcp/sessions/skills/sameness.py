"""When two task files are the same task: their computation and sizes decide, not their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from harness.types import Operator, Task, TensorSpec
from kevolve_mcp.errors import NotFound
from kevolve_mcp.store import Store

# factor in one dimension: kernels behave alike on sizes that are closer
FAR = 2
# operators whose operands may change places
_COMMUTATIVE = (
    "add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # dtype and shape of each tensor
_Case = tuple[_Shapes, _Shapes]


@dataclass(frozen=True)
class _Content:
    """The content of a task. graph: its operators with all that they take, without axis lengths,
    which belong to the traced case, in no order. cases: inputs and outputs of each visible case."""

    graph: tuple[str, ...]
    operators: tuple[str, ...]
    cases: frozenset[_Case]


class KnownTasks:
    """The tasks of a store, each read only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Content | None] = {}

    def another(self, one: str, other: str) -> bool:
        """Return whether two digests are different tasks: their graphs differ, or one has a case
        for which the other has none within a factor of two in every dimension. Names, weights,
        arguments and the order of cases do not matter."""
        if one == other:
            return False
        a, b = self._content(one), self._content(other)
        if a is None or b is None:
            return True
        computes = a.graph != b.graph if a.graph and b.graph else a.operators != b.operators
        return computes or not (_covers(a, b) and _covers(b, a))

    def _content(self, digest: str) -> _Content | None:
        if digest not in self._known:
            try:
                self._known[digest] = _content(self._store.tasks.get(digest))
            except NotFound:  # a task of the home that the skill was imported from
                self._known[digest] = None
        return self._known[digest]


def _content(task: Task) -> _Content:
    return _Content(
        _unordered(task.graph),
        tuple(sorted(task.operators)),
        frozenset((_shapes(c.inputs), _shapes(c.outputs)) for c in task.visible_cases),
    )


def _unordered(graph: Iterable[Operator]) -> tuple[str, ...]:
    """Return a digest of each operator and all that it takes, sorted: lines that do not depend on
    each other may stand in any order, and so may the operands of a sum."""
    digests: list[str] = []
    for operator in graph:
        taken = [digests[n] if 0 <= n < len(digests) else str(n) for n in operator.reads]
        if operator.name in _COMMUTATIVE:
            taken.sort()
        text = json.dumps([operator.name, operator.axes, taken])
        digests.append(hashlib.sha256(text.encode()).hexdigest())
    return tuple(sorted(digests))


def _shapes(specs: Iterable[TensorSpec]) -> _Shapes:
    return tuple((s.dtype, s.shape) for s in specs)


def _covers(a: _Content, b: _Content) -> bool:
    """Whether each case of b has a close case of a."""
    return all(any(_near(ours, theirs) for ours in a.cases) for theirs in b.cases)


def _near(a: _Case, b: _Case) -> bool:
    return all(
        len(one) == len(other)
        and all(
            dtype == d and len(shape) == len(s) and not any(map(_far, shape, s))
            for (dtype, shape), (d, s) in zip(one, other, strict=True)
        )
        for one, other in zip(a, b, strict=True)
    )


def _far(a: int, b: int) -> bool:
    return max(a, b) >= FAR * max(1, min(a, b))
