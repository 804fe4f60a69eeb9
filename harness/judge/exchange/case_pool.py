"""The judge's data about one case: its layouts, its input sets, and the allowances of its outputs.

Checking sets hold the expected outputs in double precision and the framework's own results. Timing
sets hold the expected outputs rounded to the output's dtype. They are drawn again for each pair of
processes, so that a process cannot pass useful information to a later one.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...wire import dtypes, memory_files
from ...wire.layouts import Layout, first_items
from ...workers import families, operators, rounding, sampled_results
from ...workers.live_task import WITHOUT_GRADIENTS
from ...workers.parameter_states import CHANGES, Kind, kind_of
from ..correctness import tolerance
from .input_sets import Group, Half, InputSet, LeftValue

MOST_TERMS, APART = 1 << 20, 1 << 8  # limits on K: for a sum; where no elements are combined
# A sample of the inputs is noticed in a set where its error is this multiple of the limit, and in
# sets drawn later where it was so much larger in one: of a mean of bounded values it came to 0.4 to
# 3 times the limit, and one evaluation of three noticed it.
NOTICED, NOTICED_LATER = 1.5, 4.0
# In single precision an input that changes an output by no more than this multiple of the floor may
# be read in 16 bits: products in bfloat16 were 2.4 % off in a step of Muon, and passed.
READ_IN_FULL = 64.0
COMBINED = 2  # elements of one input for each of an output, from which the output combines some
PARTS_BYTES = 16 << 20  # the most parameters and buffers of a case that change in parts
REPLACED_BYTES = 1 << 30  # the most inputs of a case of which another draw is compared


class States(dict[int, int]):
    """States of the parameters: the descriptor of the values of each seed. current: the state that
    the reference is in."""

    current: int | None = None


@dataclass
class CasePool:
    """The judge's data about one case. describe: the reference worker's answer to that command."""

    name: str
    describe: dict[str, Any]
    seed: int = field(default_factory=lambda: secrets.randbits(48))
    init_fd: int = -1
    states: States = field(default_factory=States)
    checking: list[tuple[int, InputSet]] = field(default_factory=list)  # (state seed, set)
    # the values of what forward updates after a call on the first checking set, by name
    left_state: dict[str, LeftValue] = field(default_factory=dict)
    # names of what forward updates alike for all inputs, see Updates.foreseen
    foreseen: set[str] | None = None
    # whether the reference works with other values of those, see Updates.other_values
    takes_other_values: bool | None = None
    # of more sets by state and family, see Drawer.framework_allowances
    framework_allowances: dict[tuple[int, str], list[list[tolerance.FrameworkAllowance]]] = field(
        default_factory=dict
    )
    # by state, whether its results are the same in evaluation mode
    ignores_modes: dict[int, bool] = field(default_factory=dict)
    # a case with gradients where none are recorded, with checking sets of its own
    unrecorded: CasePool | None = None
    timing: list[Group] = field(default_factory=list)
    timed_candidates: int = 1  # for how many `timing` was drawn
    # of `timing`: two where there are parameters, which change between them
    halves: list[Half] = field(default_factory=list)
    # groups of one set each, for the last half, where a device's burst has several calls
    single_call_groups: list[Group] = field(default_factory=list)
    calls: int = 1  # measured calls of a burst
    warm_calls: int = 0  # unmeasured calls before them
    # bursts without calls, on a device whose bursts the judge's clock measures
    empty_bursts: int = 0
    short: bool = False  # whether calls are short
    one_by_one: bool = False  # whether calls are made one by one
    # whether sets are on the device, in memory that workers share with the judge
    shared: bool = False
    bitwise: bool = False  # whether timed outputs are compared with the framework's own bits
    rotating_bytes: int = 0  # of the timing sets of one pair of processes
    allowances: list[tolerance.Allowance] = field(default_factory=list)
    # the allowances for timed sets of each family in UNEVEN
    family_allowances: dict[str, list[tolerance.Allowance]] = field(default_factory=dict)
    # the allowances for timed sets in uneven and moved states of the parameters, by kind of state
    state_allowances: dict[Kind, list[tolerance.Allowance]] = field(default_factory=dict)
    # by family, whether a sample of its inputs is noticed, see input_families.reveals_a_sample
    reveals: dict[str, bool] = field(default_factory=dict)
    # by what is sampled (one of two neighbours) and its number, and there by output, the largest
    # error in any family of timed sets, as a multiple of the limit
    sampled_errors: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    # likewise for inputs and pieces that are those of another draw, as multiples of `least_effects`
    effects: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    # and for products and the axes that they add up, in other states as well
    product_effects: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    coming_kinds: list[Kind] = field(default_factory=list)  # see next_kind
    # for each output, see tolerance.are_steady
    steady: list[bool] = field(default_factory=list)
    # for each output, see tolerance.single_growth
    apart_growths: list[float] = field(default_factory=list)
    # how much of a call's outputs other draws have as well, see known_outputs; None if unknown
    twin_bytes: int | None = None
    # outputs for which a constant would pass on the task's own inputs
    predictable: list[int] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    dropped_families: dict[str, str] = field(default_factory=dict)

    def without_gradients(self) -> CasePool:
        """Return this case, which has gradients, as it is called where none are recorded. It has no
        sets yet."""
        inputs, count = self.describe["inputs"], self.results
        describe = {
            "inputs": first_items(inputs, len(inputs["tree"]["list"]) - len(self.upstream)),
            "outputs": first_items(self.outputs, count),
            "aliases": [number for number in self.describe["aliases"] if number < count],
            "upstream": [],
            "trained": [],
        }
        return CasePool(
            self.name + WITHOUT_GRADIENTS,
            {**self.describe, **describe},
            self.seed,
            self.init_fd,
            self.states,
            shared=self.shared,
            steady=self.steady[:count],
            apart_growths=self.apart_growths[:count],
        )

    def changes_in_parts(self, state: int) -> bool:
        """Whether only the parameters that differ are written in this state: not large ones."""
        return bool(state) and kind_of(state) in CHANGES and self.state_bytes <= PARTS_BYTES

    @property
    def changed(self) -> tuple[int, InputSet] | None:
        """A state in which all parameters are others, with a checking set of plain inputs."""
        for state, input_set in self.checking:
            if state and kind_of(state) == "changed" and input_set.family == "dense":
                return state, input_set
        return None

    def next_kind(self) -> Kind:
        """Return the kind of state of the parameters for the next pair of processes: each usable
        one in turn, in unpredictable order, since a sample of the parameters may be right in all of
        one kind but not in those of another."""
        if not self.coming_kinds:
            kinds: list[Kind] = list(self.state_allowances) or ["changed"]
            self.coming_kinds = secrets.SystemRandom().sample(kinds, len(kinds))
        return self.coming_kinds.pop()

    def forget_state(self, seed: int) -> None:
        """Forget a state of the parameters that is no longer used."""
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
        """The memory that a worker needs for the outputs of one call, estimated by the
        framework's."""
        return max(self.slot_bytes, int(self.describe["held_bytes"]))

    @property
    def precise_bytes(self) -> int:
        """The bytes of the expected outputs in double precision, without padding."""
        return sum(
            _count(leaf["shape"]) * (16 if leaf["dtype"].startswith("complex") else 8)
            for leaf in self.outputs["leaves"]
        )

    @property
    def set_bytes(self) -> int:
        """The bytes of a checking set: inputs, expected outputs and second results in double
        precision, the framework's own outputs, and the alternatives."""
        precise = self.precise_bytes * (2 if self.has_second else 1)
        return self.input_bytes + precise + self.slot_bytes + self.alternative_bytes

    @property
    def orders(self) -> list[tuple[int, int, int]]:
        """Outputs that hold places of an input's values, see workers.open_ties."""
        return [(output, source, axis) for output, source, axis in self.describe["orders"]]

    @property
    def counted(self) -> list[int]:
        """Outputs that count comparisons, see workers.counted_outputs."""
        return list(self.describe["counted"])

    @property
    def has_second(self) -> bool:
        """Whether checking sets hold second results, see workers.second_results."""
        return bool(self.describe["second"])

    @property
    def alternative_bytes(self) -> int:
        """The bytes of one call's alternative outputs, where rounding to whole numbers may go the
        other way."""
        return len(rounding.SIDES) * self.slot_bytes if self.roundoff else 0

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the values that the reference rounds to whole numbers; 0 where these
        are exact or there are none."""
        return float(self.describe["roundoff"])

    @property
    def input_bytes(self) -> int:
        return int(self.describe["inputs"]["bytes"])

    @property
    def state_bytes(self) -> int:
        return int(self.describe["state_layout"]["bytes"])

    @property
    def call_s(self) -> float:
        """An upper bound on the seconds of one call of the reference on one core or on a device."""
        return float(self.describe["call_s"])

    @property
    def combining(self) -> list[int]:
        """The outputs with so few elements that a sample of the inputs, or of one, may pass for
        all."""
        inputs = [leaf for leaf in self.describe["inputs"]["leaves"] if "value" not in leaf]
        sizes = [_count(leaf["shape"]) for leaf in inputs]
        most = max(max(sizes, default=0) / COMBINED, sum(sizes) / sampled_results.NEIGHBOURS)
        return [
            number
            for number, leaf in enumerate(self.outputs["leaves"])
            if _count(leaf["shape"]) <= most
        ]

    @property
    def sampled_alike(self) -> list[int]:
        """The outputs that may come out within the limits in all timed families where only half of
        the inputs are read. A sample without any error does not count: the reference reads no
        more."""
        return [
            number
            for number in self.combining
            if any(0 < errors[number] <= NOTICED_LATER for errors in self.sampled_errors.values())
        ]

    @property
    def may_hide_inputs(self) -> bool:
        """Whether another set may tell how much is to be seen of an input, or of a product: there
        was none yet, or little in those before."""
        fits = self.input_bytes <= REPLACED_BYTES
        return fits and (not self.families or bool(self.hardly_read))

    def least_effects(self, allowances: Sequence[tolerance.Allowance]) -> list[float]:
        """Return of each output how much an input has to change it on a set with these allowances
        to be read in full. Where no elements are combined, 16 bits inside are no faster."""
        found = []
        for number, (leaf, limits) in enumerate(
            zip(self.outputs["leaves"], allowances, strict=True)
        ):
            fine = dtypes.ROUNDOFF.get(leaf["dtype"], 1.0) <= dtypes.ROUNDOFF["float32"]
            least = 0.0 if limits.rule == "equal" else NOTICED * limits.norm
            if fine and least and not self.pointwise and number not in self.combining:
                floor = tolerance.floor(leaf["dtype"], self.reductions[number])
                least = max(least, READ_IN_FULL * floor)
            found.append(math.inf if limits.rule == "open" else least)
        return found

    @property
    def hardly_read(self) -> list[int]:
        """The outputs in which little is to be seen of an input, or of a product, in all timed
        families: of a small step away from large weights, part of the work may be left out. One
        without any effect does not count: the output does not depend on it."""
        noted = [*self.effects.values(), *self.product_effects.values()]
        return [
            number
            for number in range(len(self.outputs["leaves"]))
            if any(0 < effects[number] <= 1 for effects in noted)
        ]

    @property
    def timing_bytes(self) -> int:
        """The bytes of the timing sets."""
        return sum(len(group.sets) for group in self.timing) * (self.input_bytes + self.slot_bytes)

    @property
    def working_set(self) -> int:
        """The bytes that the timed calls cycle through. Calls made one by one find their inputs
        where the judge has just written them."""
        call_bytes = self.input_bytes + self.slot_bytes
        return call_bytes if self.one_by_one else max(self.rotating_bytes, call_bytes)

    @property
    def reductions(self) -> list[int]:
        """K of each output for the oracle's floor: how many input elements can enter one of its
        elements, by its size and the reference's operators, and at least the longest axis. A loss
        counts as a sum of rows, not of all elements of the rows. K is limited to 2^20, since beyond
        it every implementation sums in blocks. Where no elements are combined, K stands for the
        error of function approximations."""
        return [self._reduction(_count(leaf["shape"])) for leaf in self.outputs["leaves"]]

    def reduction_of_state(self, name: str) -> int:
        """K of a parameter or buffer that forward updates, likewise, and at least the rows of an
        input, since an element may add up the rows that belong to it. The size of an output, such
        as a loss, does not count."""
        shape, _ = self.describe["state"][name]
        rows = (_count(leaf_shape[:-1]) for leaf_shape in self._input_shapes)
        return self._reduction(_count(shape), max(rows, default=1))

    def _reduction(self, elements: int, least: int = 1) -> int:
        """K of a result of so many elements, at least this."""
        inputs = self._input_shapes
        state = [shape for shape, _ in self.describe["state"].values()]
        longest = max((extent for shape in inputs for extent in shape), default=1)
        input_elements = sum(_count(shape) for shape in [*inputs, *state])
        entering = input_elements // max(1, elements)
        terms = max(least, longest, min(entering, int(self.describe["terms"])))
        return min(terms, APART if self.pointwise else MOST_TERMS)

    @property
    def _input_shapes(self) -> list[list[int]]:
        leaves = self.describe["inputs"]["leaves"]
        return [leaf["shape"] for leaf in leaves if "value" not in leaf]

    @property
    def pointwise(self) -> bool:
        """Whether the reference never combines two elements of one tensor."""
        return bool(self.describe["pointwise"])

    def alone_along(self, number: int) -> bool:
        """Return whether only one input or parameter varies along the rows of an output, and no
        operator oscillates: an error that a row shares then enters its elements in proportion to
        their own values, not to other values such as weights."""
        shape = self.outputs["leaves"][number]["shape"]
        shapes = [
            leaf["shape"] for leaf in self.describe["inputs"]["leaves"] if "value" not in leaf
        ]
        shapes += [shape for shape, _ in self.describe["state"].values()]
        wide = sum(_count(each) >= shape[-1] for each in shapes) if shape else 0
        return wide == 1 and not operators.oscillates(self.describe["operators"])

    @property
    def idle_families(self) -> set[str]:
        """The families that leave the inputs as they are."""
        return families.without_effect(
            [
                (leaf["shape"], leaf["stride"], leaf["dtype"])
                for leaf in self.describe["inputs"]["leaves"]
                if "value" not in leaf
            ]
        )

    @property
    def results(self) -> int:
        """The number of outputs that forward returns; gradients follow them."""
        return int(self.describe["results"])

    @property
    def upstream(self) -> list[int]:
        """The indices of outputs from which gradients flow back; the gradients with respect to them
        are the last inputs of every set."""
        return list(self.describe["upstream"])

    @property
    def trained(self) -> list[str]:
        """The names of parameters whose gradients follow those of the inputs."""
        return list(self.describe["trained"])

    @property
    def updated(self) -> list[str]:
        """The names of parameters and buffers that the reference's forward changes."""
        return list(self.describe["updated"])

    @property
    def keeps_floating(self) -> bool:
        """Whether one of them holds floating values, and not only counts."""
        return any(dtypes.rounds(self.describe["state"][name][1]) for name in self.updated)

    @property
    def aliases(self) -> list[int]:
        """The indices of outputs that may lie in the memory of inputs: those that do in the
        reference, and gradients."""
        gradients = range(self.results, len(self.outputs["leaves"]))
        return [*self.describe["aliases"], *gradients]

    @property
    def exact(self) -> bool:
        """Whether the reference rounds nothing: it only moves, chooses or compares values."""
        return not self.upstream and operators.is_exact(self.describe["operators"])

    def release(self, *, checking: bool = False) -> None:
        """Release the timing sets, which are drawn again when they are needed. checking: release
        the checking sets too, except the two plain ones, which are used to warm processes up and to
        find out what does the work."""
        for half in self.halves:
            if half.state and (fd := self.states.pop(half.state, -1)) >= 0:
                os.close(fd)
                for key in [each for each in self.framework_allowances if each[0] == half.state]:
                    del self.framework_allowances[key]
        self.timing, self.halves, self.single_call_groups = [], [], []
        if checking:
            del self.checking[2:]
            self.left_state, self.unrecorded = {}, None

    def ask_for_bits(self, bitwise: bool) -> None:
        """Set whether timed outputs must have the framework's own bits, which timing sets then
        hold."""
        if bitwise != self.bitwise:
            self.bitwise = bitwise
            self.release()

    def close(self) -> None:
        for fd in (self.init_fd, *self.states.values()):
            if fd >= 0:
                os.close(fd)
        self.checking, self.timing, self.halves, self.single_call_groups = [], [], [], []
        self.left_state, self.unrecorded = {}, None


def _count(shape: list[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
