"""The findings about the outputs of one case: which are wrong, how, and with which families of
inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...types import Signal
from ...wire import dtypes
from ...wire.nesting import tensors_of
from ..correctness import oracle, tolerance
from ..exchange.input_sets import InputSet
from ..failures import Failure
from ..tasks.input_families import GROWN

FEW = 16  # whole numbers
# plain inputs with parameters that differ in more than their values from those before
_DESCRIPTIONS = {
    GROWN: "dense inputs, with parameters as large as training may make them",
    "uneven parameters": "dense inputs, with a few parameters far larger than the others",
    "raised parameters": "dense inputs, with some parameters larger than the others",
    "moved parameters": "dense inputs, with parameters whose averages and spreads are other ones",
}


@dataclass
class Mismatches:
    """The findings about the outputs of one case so far. results: the number of outputs that
    forward returns. framework_allowances: returns what the framework's own error would allow of
    each output of a set, and of more of its kind."""

    _case: str
    _results: int
    _bitwise: bool
    _framework_allowances: Callable[[InputSet], Sequence[Sequence[tolerance.FrameworkAllowance]]]
    findings: list[oracle.Finding] = field(default_factory=list)  # of right outputs
    wrong: list[tuple[str, str, oracle.Finding]] = field(default_factory=list)  # signal, text
    # family and index of the output that was wrong first, if only its values are wrong
    first: tuple[str, int] | None = None
    # family -> largest share of wrong elements
    shares: dict[str, float] = field(default_factory=dict)
    special: str = ""  # what differs with special values in the inputs

    def compare(
        self, number: int, output: Any, input_set: InputSet, *, bitwise: bool = False
    ) -> oracle.Finding:
        """Compare one output of a call; where it is hardly beyond its limits, with those of more
        draws as well."""
        expected, framework = input_set.expectation(number, output), input_set.framework[number]
        allowance = input_set.allowances[number]
        finding = oracle.compare(output, expected, allowance, framework, bitwise)

        def more() -> Sequence[tolerance.FrameworkAllowance]:
            return [each[number] for each in self._framework_allowances(input_set)]

        return oracle.compare_by_more_draws(finding, output, expected, allowance, framework, more)

    def add(
        self,
        number: int,
        output: Any,
        input_set: InputSet,
        others: list[InputSet],
        *,
        changed: bool,
        repeated: bool,
    ) -> None:
        """Compare one output of a call. others: further sets, whose outputs it may be. changed: the
        parameters have changed. repeated: the same inputs were used before."""
        bitwise = self._bitwise and input_set.family != "special"
        finding = self.compare(number, output, input_set, bitwise=bitwise)
        if finding.signal is None:
            self.findings.append(finding)
            if input_set.family != "special":
                self.shares.setdefault(input_set.family, 0.0)
            return
        what = f"output {number}: {finding.detail}"
        if input_set.family == "special":
            self.special = self.special or (
                f"with NaN, infinities and the largest numbers in {_special_input(input_set)} the "
                f"result differs from the reference's, {what}; no candidate fails because of this"
            )
            return
        name = finding.signal
        if changed and input_set.family not in _DESCRIPTIONS:
            name = "wrong.stale_parameters"
        elif _tells(output) and any(_is_right(output, number, other) for other in others):
            # before the other signals: rotated buffers may show in repeated calls first
            name = "wrong.held_output"
            what = (
                f"output {number} is that of another call: one buffer for several calls, or a "
                "result kept"
            )
        elif repeated and not self.wrong:
            name = "wrong.race"
        elif number >= self._results and not self.wrong:
            name = "wrong.gradients"
        if not self.wrong and not changed and name in (finding.signal, "wrong.gradients"):
            self.first = (input_set.family, number)
        text = f"case {self._case}, {describe_setting([input_set.family], changed=changed)}, {what}"
        if math.isfinite(finding.error) and finding.limit:
            figures = (
                f"error {finding.error:.2e}, allowed {finding.limit:.2e}, the framework's own "
                f"{finding.framework_error:.2e}"
            )
            text += f" ({figures})"
        self.wrong.append((name, text, finding))
        self.shares[input_set.family] = max(self.shares.get(input_set.family, 0.0), finding.share)

    @property
    def worst(self) -> oracle.Finding:
        """The finding of the right output that is nearest to its limit."""
        return max(self.findings, key=lambda f: f.error / max(f.limit, 1e-300))

    def failure(self, example: str, rows: str) -> Failure:
        """Return the failure for the first wrong result, with the families that fail and those that
        do not. example: the worst values on inputs that are not used for judging. rows: the first
        wrong rows on these."""
        name, text, finding = self.wrong[0]
        if example:
            text += f"; on inputs drawn for this message alone, {example}"
        failing = [f for f, share in self.shares.items() if share]
        passing = [f for f, share in self.shares.items() if not share]
        if failing and passing:
            text += f"; wrong with {', '.join(failing)} inputs, right with {', '.join(passing)}"
        evidence = {f"wrong share, {family} inputs": share for family, share in self.shares.items()}
        others = tuple(Signal(other, finding.detail) for other in finding.also if other != name)
        return Failure(
            "incorrect",
            text,
            (Signal(name, text, evidence), *others),
            rows,
            wrong=(self._case, finding),
        )


def describe_setting(families: list[str], *, changed: bool) -> str:
    """Describe the inputs and parameters of a check."""
    if len(families) == 1 and families[0] in _DESCRIPTIONS:
        return _DESCRIPTIONS[families[0]]
    after = "after the parameters changed, " if changed else ""
    return f"{after}{' and '.join(dict.fromkeys(families))} inputs"


def _special_input(input_set: InputSet) -> str:
    """Name the input that has special values in a set of the family `special`."""
    inputs = [
        f"input {number} ({str(v.dtype).removeprefix('torch.')}{list(v.shape)})"
        for number, v in enumerate(
            tensors_of(input_set.file.value(input_set.layout, input_set.base))
        )
        if v.is_floating_point() and not bool(v.isfinite().all())
    ]
    return ", ".join(inputs[:3]) or "the inputs"


def _tells(output: Any) -> bool:
    """Return whether an output is hardly another call's by chance, as a few whole numbers are."""
    return output.numel() >= FEW or dtypes.rounds(output.dtype)


def _is_right(output: Any, number: int, input_set: InputSet) -> bool:
    """Return whether an output is right for these inputs."""
    expected = input_set.expectation(number, output)
    return oracle.is_right(
        output, expected, input_set.allowances[number], input_set.framework[number]
    )
