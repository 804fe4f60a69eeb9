"""What the judge keeps about one case: its layouts, its sets, and what outputs may be off by.

Checking sets keep the expected outputs in double precision and the framework's own result. Timing
sets keep the expected outputs rounded to the output's dtype; they are drawn anew for each pair of
processes: whatever one process tells a later one is of no use to it.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Any

from ...wire import memory_files
from ...wire.layouts import Layout
from ...workers import families, operators, rounding
from ..correctness import tolerance
from .input_sets import Group, Half, InputSet, LeftValue

MOST_TERMS, APART = 1 << 20, 1 << 8  # of a sum, as far as rounding goes; where no elements meet


@dataclass
class CasePool:
    """Everything the judge keeps about one case. `describe` is the reference worker's answer of
    that name."""

    name: str
    describe: dict[str, Any]
    seed: int = field(default_factory=lambda: secrets.randbits(48))
    init_fd: int = -1
    # state seed -> descriptor of the parameter values
    states: dict[int, int] = field(default_factory=dict)
    state: int | None = None  # of them, in which the reference is
    checking: list[tuple[int, InputSet]] = field(default_factory=list)  # (state seed, set)
    # what a call on the first checking set leaves of what forward updates, by name
    left_state: dict[str, LeftValue] = field(default_factory=dict)
    timing: list[Group] = field(default_factory=list)
    # of `timing`: two where there are parameters, which change between them
    halves: list[Half] = field(default_factory=list)
    # of one set each, where a device's burst has several calls; of the last half
    single_call_groups: list[Group] = field(default_factory=list)
    calls: int = 1  # measured, of a burst
    warm_calls: int = 0  # calls before them that are not measured
    # bursts that call nothing, on a device whose bursts the judge's clock measures
    empty_bursts: int = 0
    short: bool = False  # whether a call is
    one_by_one: bool = False  # whether calls are handed over one by one
    # whether sets lie on the device, in memory that workers share with the judge
    shared: bool = False
    bitwise: bool = False  # whether timed outputs are compared with the framework's own bits
    rotating_bytes: int = 0  # of the timing sets of one pair of processes
    allowances: list[tolerance.Allowance] = field(default_factory=list)
    # what holds for timed sets of each of UNEVEN
    family_allowances: dict[str, list[tolerance.Allowance]] = field(default_factory=dict)
    # of each output: whether draws resemble each other in size
    steady: list[bool] = field(default_factory=list)
    # of each output: what few rows allow errors that neighbours do not share, see the oracle
    apart_growths: list[float] = field(default_factory=list)
    # outputs that a constant would pass for on the task's own inputs
    predictable: list[int] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    dropped_families: dict[str, str] = field(default_factory=dict)

    def forget_state(self, seed: int) -> None:
        """Nobody is put into this state of the parameters any more."""
        os.close(self.states.pop(seed))

    @property
    def outputs(self) -> Layout:
        layout: Layout = self.describe["outputs"]
        return layout

    @property
    def slot_bytes(self) -> int:
        return max(int(self.outputs["bytes"]), memory_files.PAGE)

    @property
    def held_bytes(self) -> int:
        """What a worker holds for the outputs of one call, as far as the framework's show."""
        return max(self.slot_bytes, int(self.describe["held_bytes"]))

    @property
    def precise_bytes(self) -> int:
        """Of the expected outputs in double precision, without what lies between them."""
        return sum(
            _count(leaf["shape"]) * (16 if leaf["dtype"].startswith("complex") else 8)
            for leaf in self.outputs["leaves"]
        )

    @property
    def set_bytes(self) -> int:
        """Of a checking set: inputs, what is expected in double precision, and the framework's
        own, and what else is right."""
        return self.input_bytes + self.precise_bytes + self.slot_bytes + self.alternative_bytes

    @property
    def alternative_bytes(self) -> int:
        """Of one call's outputs where rounding to whole numbers goes the other way."""
        return len(rounding.SIDES) * self.slot_bytes if self.roundoff else 0

    @property
    def roundoff(self) -> float:
        """The unit roundoff of what the reference rounds to whole numbers, 0 for nothing that had
        been rounded before."""
        return float(self.describe["roundoff"])

    @property
    def input_bytes(self) -> int:
        return int(self.describe["inputs"]["bytes"])

    @property
    def state_bytes(self) -> int:
        return int(self.describe["state_layout"]["bytes"])

    @property
    def call_s(self) -> float:
        """What one call of the reference takes on one core, or on a device, at the most."""
        return float(self.describe["call_s"])

    @property
    def timing_bytes(self) -> int:
        """What the timing sets hold."""
        return sum(len(group.sets) for group in self.timing) * (self.input_bytes + self.slot_bytes)

    @property
    def working_set(self) -> int:
        """Bytes that the timed calls go through. On a CPU calls come one by one, and find their
        inputs as the judge has just written them."""
        call_bytes = self.input_bytes + self.slot_bytes
        return call_bytes if self.one_by_one else max(self.rotating_bytes, call_bytes)

    @property
    def reductions(self) -> list[int]:
        """K of each output for the oracle's floor: how many input elements can meet in one of its
        elements, as far as its size and the reference's operators say; the longest axis in any
        case. A loss is a sum of rows, not of all that the rows were made of. Beyond 2^20 a plain
        sum in single precision is no longer one, and blocks are what everybody adds up; where no
        elements meet, it stands for what approximations of functions lose."""
        inputs = [
            leaf["shape"] for leaf in self.describe["inputs"]["leaves"] if "value" not in leaf
        ]
        state = [shape for shape, _ in self.describe["state"].values()]
        longest = max((extent for shape in inputs for extent in shape), default=1)
        input_elements = sum(_count(shape) for shape in [*inputs, *state])
        output_elements = [_count(leaf["shape"]) for leaf in self.outputs["leaves"]]
        term_counts = [
            max(1, longest, min(input_elements // max(1, count), int(self.describe["terms"])))
            for count in output_elements
        ]
        return [min(terms, APART if self.pointwise else MOST_TERMS) for terms in term_counts]

    @property
    def pointwise(self) -> bool:
        """Whether the reference never lets two elements of one tensor meet."""
        return bool(self.describe["pointwise"])

    def alone_along(self, number: int) -> bool:
        """Whether one input or parameter alone differs along the rows of an output: what a row
        shares enters its elements as their own values say, and not by others' (weights, say), nor
        by functions that oscillate."""
        shape = self.outputs["leaves"][number]["shape"]
        shapes = [
            leaf["shape"] for leaf in self.describe["inputs"]["leaves"] if "value" not in leaf
        ]
        shapes += [shape for shape, _ in self.describe["state"].values()]
        wide = sum(_count(each) >= shape[-1] for each in shapes) if shape else 0
        return wide == 1 and not operators.oscillates(self.describe["operators"])

    @property
    def names(self) -> bool:
        """Whether an integer input may name one value of each row of another input, which does not
        overlap: such a one stays as it was drawn."""
        tensors = [leaf for leaf in self.describe["inputs"]["leaves"] if "value" not in leaf]
        return families.names(
            [
                (leaf["shape"], leaf["dtype"])
                for leaf in tensors
                if "int" in leaf["dtype"] or not families.overlaps(leaf["shape"], leaf["stride"])
            ]
        )

    @property
    def results(self) -> int:
        """How many outputs forward returns; gradients follow them."""
        return int(self.describe["results"])

    @property
    def upstream(self) -> list[int]:
        """Outputs from which gradients flow back, by number; the gradients with respect to them are
        the last inputs of every set."""
        return list(self.describe["upstream"])

    @property
    def trained(self) -> list[str]:
        """Parameters whose gradients follow those of the inputs, by name."""
        return list(self.describe["trained"])

    @property
    def updated(self) -> list[str]:
        """Parameters and buffers that the reference's forward changes, by name."""
        return list(self.describe["updated"])

    @property
    def aliases(self) -> list[int]:
        """Outputs, by number, that may lie in the memory of inputs: those of the reference that
        do, and gradients."""
        gradients = range(self.results, len(self.outputs["leaves"]))
        return [*self.describe["aliases"], *gradients]

    @property
    def exact(self) -> bool:
        """Whether nothing is rounded: the reference only moves, chooses or compares values."""
        return not self.upstream and operators.is_exact(self.describe["operators"])

    def release(self, *, checking: bool = False) -> None:
        """Give the memory of the timing sets back; with `checking` that of the checking sets, too,
        but for the two plain ones, which warm processes up and show who works. Timing sets are
        drawn anew where they are wanted again."""
        for half in self.halves:
            if half.state and (fd := self.states.pop(half.state, -1)) >= 0:
                os.close(fd)
        self.timing, self.halves, self.single_call_groups = [], [], []
        if checking:
            del self.checking[2:]
            self.left_state = {}

    def ask_for_bits(self, bitwise: bool) -> None:
        """Whether timed outputs shall have the framework's own bits: timing sets hold these
        then."""
        if bitwise != self.bitwise:
            self.bitwise = bitwise
            self.release()

    def close(self) -> None:
        for fd in (self.init_fd, *self.states.values()):
            if fd >= 0:
                os.close(fd)
        self.checking, self.timing, self.halves, self.single_call_groups = [], [], [], []
        self.left_state = {}


def _count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
