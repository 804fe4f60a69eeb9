"""Inputs and their expected outputs, as the judge holds them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...wire import buffers, memory_files
from ...wire.layouts import Layout
from ...wire.nesting import tensors_of
from ..correctness import ties, tolerance
from ..correctness.distance import same_bits
from . import known_outputs

if TYPE_CHECKING:
    import torch


class InputFile:
    """A sealed file of inputs, closed when nothing refers to it any more; or bytes on a device that
    workers cannot access."""

    def __init__(self, fd: int = -1, on_device: torch.Tensor | None = None) -> None:
        self.fd, self.bytes = fd, on_device

    def value(self, layout: Layout, base: int = 0) -> Any:
        """Return the inputs as tensors."""
        if self.bytes is not None:
            return buffers.build(layout, self.bytes, base)
        return buffers.read(self.fd, layout, base=base)

    @cached_property
    def view(self) -> memoryview:
        """The bytes of the file."""
        return memoryview(memory_files.map_private(self.fd))

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


@dataclass
class InputSet:
    """The inputs of one call with their place and layout, and the expected outputs; for checking
    sets also the framework's own outputs.

    seed: from which the set can be drawn again. allowances: of each output for exactly these inputs
    (checking sets). finite: whether the expected outputs are. left_open: outputs that depend on how
    the reference orders computed values of which some are equal. alternatives: lists of all outputs
    where values near a tie fall on the other side, or none; see `ties`. second: second results of
    the reference, or none; see `workers.second_results`. memory: where the reference's outputs lie,
    see `workers.tensor_relations`. orders: see `workers.open_ties`. counted: see
    `workers.counted_outputs`. framework_allowances: see
    `tasks.set_allowances.framework_allowances`. effects: what the
    outputs are off by, by what was done to the reference: "sampled" and "replaced" inputs (see
    `workers.sampled_results`), "products" (`workers.replaced_products`), "pieces",
    "replaced_pieces" and "axes" (`workers.sampled_parts`).
    """

    file: InputFile
    base: int
    layout: Layout
    expected: list[torch.Tensor]
    family: str = "dense"
    seed: int = 0
    finite: bool = True
    left_open: Sequence[int] = ()
    framework: list[torch.Tensor] = field(default_factory=list)
    allowances: list[tolerance.Allowance] = field(default_factory=list)
    alternatives: list[list[torch.Tensor]] = field(default_factory=list)
    second: list[torch.Tensor] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    orders: Sequence[tuple[int, int, int]] = ()
    counted: Sequence[int] = ()
    framework_allowances: list[tolerance.FrameworkAllowance] = field(default_factory=list)
    effects: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)

    @property
    def sampled(self) -> Sequence[Sequence[float]]:
        """What the outputs are off by for samples of all inputs, and then of each."""
        return self.effects.get("sampled", ())

    def expectation(self, number: int, output: torch.Tensor) -> torch.Tensor:
        """Return the expected values of an output; of two right ones, the nearer one."""
        others = [side[number] for side in self.alternatives]
        counted = number in self.counted
        settled = ties.settle(output, self.expected[number], others, between=counted)
        return self.in_order(number, output, settled)

    def in_order(self, number: int, output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """Return the expected values of an output; of places of equal values, the output's."""
        for which, source, axis in self.orders:
            if which == number and not same_bits(output.to(expected.device), expected):
                inputs = tensors_of(self.file.value(self.layout, self.base))
                return ties.settle_order(output, expected, inputs[source], axis)
        return expected


@dataclass(frozen=True)
class LeftValue:
    """The value of a parameter or buffer after calls of the reference, in high precision and in the
    framework's own dtype, with its allowance. unsure: calls make more of roundings than errors, see
    tolerance.derive_carried."""

    expected: torch.Tensor
    framework: torch.Tensor
    allowance: tolerance.Allowance
    unsure: bool = False


@dataclass
class Group:
    """The sets of one timed burst, in one file, because mapping a file takes longer than a small
    call. expected: each output, stacked for all sets. framework: the framework's own, stacked, for
    outputs that are not floating; None for others. alternatives: as those of the sets, stacked."""

    sets: list[InputSet]
    expected: list[torch.Tensor]
    framework: list[torch.Tensor | None]
    alternatives: list[list[torch.Tensor]] = field(default_factory=list)

    def expectation(self, number: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the same as InputSet.expectation, for an output of all sets."""
        others = [side[number] for side in self.alternatives]
        counted = number in self.sets[0].counted
        expected = ties.settle(outputs, self.expected[number], others, between=counted)
        if not any(which == number for each in self.sets for which, *_ in each.orders):
            return expected
        import torch

        both = zip(self.sets, outputs, expected, strict=True)
        return torch.stack([each.in_order(number, *pair) for each, *pair in both])

    def split(self) -> list[Group]:
        """Return a group for each of the sets."""
        return [
            Group(
                [input_set],
                [each[number : number + 1] for each in self.expected],
                [each if each is None else each[number : number + 1] for each in self.framework],
                [[each[number : number + 1] for each in side] for side in self.alternatives],
            )
            for number, input_set in enumerate(self.sets)
        ]


@dataclass(frozen=True)
class Half:
    """The timed bursts under one state of the parameters; all bursts if the case has none. state:
    its seed. warm_set: inputs for unmeasured calls, with allowances where their outputs are
    checked. typical_sizes: of each output, over all sets; see tolerance. allowances: what the state
    adds to those of plain and varied inputs, of each output; none if it adds nothing. leaves: the
    layouts of the outputs. twin_bytes: what `alike_bytes` is at least, from more draws.
    parts: see known_outputs.Draws."""

    state: int
    groups: list[Group]
    warm_set: InputSet
    typical_sizes: list[tolerance.TypicalSize]
    allowances: Sequence[tolerance.Allowance] = ()
    leaves: Sequence[dict[str, Any]] = ()
    twin_bytes: int = 0
    parts: bool = False

    def group(self, number: int) -> Group:
        """Return the sets of the burst `number`, cyclically."""
        return self.groups[number % len(self.groups)]

    @cached_property
    def usual_bytes(self) -> int:
        """Of one call's outputs, how many bytes have the values that are there in most draws, such
        as zeros: whoever knows the parameters can write these before the inputs, and only the
        others in the call. All of them if there is one draw."""
        return self._draws.usual_bytes()

    @cached_property
    def alike_bytes(self) -> int:
        """The same where whole outputs can be ready for each of a few kinds of inputs, so that the
        draw that is most like it counts as well."""
        return max(self.usual_bytes, self.twin_bytes, self._draws.alike_bytes())

    @property
    def _draws(self) -> known_outputs.Draws:
        outputs = [input_set.expected for group in self.groups for input_set in group.sets]
        return compared(outputs, self.leaves, self.warm_set.allowances, parts=self.parts)


def compared(
    outputs: list[list[torch.Tensor]],
    leaves: Sequence[dict[str, Any]],
    allowances: Sequence[tolerance.Allowance],
    *,
    parts: bool = False,
) -> known_outputs.Draws:
    """Return the outputs of several draws for a comparison within these allowances. leaves: their
    layouts, if known. parts: see known_outputs.Draws."""
    limits = [each.norm if each.rule == "rounding" else 0.0 for each in allowances]
    count = len(outputs[0])
    return known_outputs.Draws(outputs, leaves or [{}] * count, limits or [0.0] * count, parts)


def typical_sizes(groups: Sequence[Group]) -> list[tolerance.TypicalSize]:
    """Return the typical size of each output, over all plain sets if there are any; see
    tolerance."""
    sets = [input_set for group in groups for input_set in group.sets]
    expected = [each.expected for each in sets if each.family == "dense"] or [
        each.expected for each in sets
    ]
    return [tolerance.typical_size(draws) for draws in zip(*expected, strict=True)]


def make_warm_set(
    group: Group,
    allowances: Sequence[tolerance.Allowance],
    typical: Sequence[tolerance.TypicalSize],
) -> InputSet:
    """Return the first set of a group, prepared to be judged like a timed one; drawing a checking
    set would take longer."""
    input_set = group.sets[0]
    limits = zip(allowances, input_set.expected, typical, strict=True)
    input_set.allowances = [
        tolerance.for_timed_call(allowance, expected, size) for allowance, expected, size in limits
    ]
    results = zip(input_set.expected, group.framework, strict=True)
    input_set.framework = [
        expected if framework is None else framework[0] for expected, framework in results
    ]
    return input_set
