"""The similarity of two tasks: the cosine of vectors of what they compute, along which axes, and on
what data.

A vector has four parts of unit length, weighted by SHARES: the operators of the task's graph; pairs
and triples of them along the data flow; its reductions, products and lookups with their axes and
their extent rounded to a power of two; the inputs' dtypes, ranks and sizes rounded to a power of
two. Counts enter by their square root, so that an unrolled loop weighs little more than its body.
Features keep their names: vectors stay small (tens of entries), never collide, and are readable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.types import Operator, Task

# chosen with benchmarks/similarity.py
SHARES = {"operators": 0.2, "flow": 0.3, "reductions": 0.4, "data": 0.1}
# operators that determine a kernel's form as much as a reduction does
CARRIES = frozenset(["product", "convolution", "gather", "scatter"])


@dataclass(frozen=True)
class Signature:
    """The signature of a task. vector: of unit length, by feature; {} for a task whose graph is not
    known. operators: the executed operators with counts."""

    vector: Mapping[str, float]
    operators: Mapping[str, int]

    @classmethod
    def of(cls, task: Task) -> Signature:
        """Return the signature of a task."""
        inputs = [
            (spec.dtype, spec.shape) for case in task.visible_cases[:1] for spec in case.inputs
        ]
        return cls(_vector(task.graph, inputs), task.operators)

    def similarity(self, other: Signature) -> float:
        """Return the similarity, 0..1; 1 for equal graphs on data of the same kind. If one of the
        graphs is not known, it is the `overlap` of the executed operators."""
        if not self.vector or not other.vector:
            return overlap(self.operators, other.operators)
        return min(
            1.0, sum(value * other.vector.get(name, 0.0) for name, value in self.vector.items())
        )


def overlap(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the multiset Jaccard index |A ∩ B| / |A ∪ B|, 0..1; 0 for two empty ones."""
    a, b = Counter(dict(one)), Counter(dict(other))
    union = (a | b).total()
    return (a & b).total() / union if union else 0.0


def _vector(
    graph: Sequence[Operator], inputs: Sequence[tuple[str, tuple[int, ...]]]
) -> dict[str, float]:
    if not graph:
        return {}
    parts = {
        "operators": Counter(o.name for o in graph),
        "flow": _flow(graph),
        "reductions": _reductions(graph),
        "data": _data(inputs),
    }
    vector: dict[str, float] = {}
    for name, part in parts.items():
        for feature, count in part.items():  # square roots of counts have the length √total
            vector[f"{name}: {feature}"] = math.sqrt(SHARES[name] * count / part.total())
    length = math.sqrt(sum(value * value for value in vector.values()))
    return {feature: value / length for feature, value in vector.items()}


def _flow(graph: Sequence[Operator]) -> Counter[str]:
    """Pairs and triples of operators of which each reads the one before."""
    features: Counter[str] = Counter()
    for operator in graph:
        for read in operator.reads:
            if read < 0:
                features[f"{'in' if read == -1 else 'own'}>{operator.name}"] += 1
                continue
            before = graph[read]
            features[f"{before.name}>{operator.name}"] += 1
            features.update(
                f"{graph[first].name}>{before.name}>{operator.name}"
                for first in before.reads
                if first >= 0
            )
    return features


def _reductions(graph: Sequence[Operator]) -> Counter[str]:
    features: Counter[str] = Counter()
    for operator in graph:
        if operator.axes:
            # the axes say more than their lengths
            features[f"{operator.name} {operator.axes}"] += 2
            features[f"{operator.axes} 2^{_bucket(operator.extent)}"] += 1
        elif operator.name in CARRIES:
            features[operator.name] += 2
    return features


def _data(inputs: Sequence[tuple[str, tuple[int, ...]]]) -> Counter[str]:
    features: Counter[str] = Counter()
    for dtype, shape in inputs:
        features[dtype] += 2
        features[f"rank {len(shape)}"] += 1
        features[f"2^{_bucket(math.prod(shape))}"] += 1
    return features


def _bucket(count: int) -> int:
    return max(0, count).bit_length()
