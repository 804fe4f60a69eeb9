"""Sentences on where a package, called as a user calls it, falls short of the goal or of the kernel
alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.types import CaseResult, Goal, Target, fitness
from kevolve_mcp.quantities import latency, share, times

from .fitness import figures

KEPT = 0.5  # of the kernel's own gain: a package that keeps less has lost it
# microseconds for finding the kernel, on the processor itself and on a device
ON_HOST_US, ON_DEVICE_US = 5.0, 8.0
REMEDY = (
    "What helps: more work per call (a larger batch), fewer tensors among arguments and parameters "
    "(each is compared), no lists of tensors; or module.kernel_alone(), which skips the choice of "
    "kernel and is correct for measured inputs only."
)


def unmet_goals(
    goal: Goal, called: Sequence[CaseResult], alone: Sequence[CaseResult], target: str
) -> tuple[str, ...]:
    """Return what the package misses, one sentence each. called: the cases as a user calls the
    package; alone: those of the kernel before the export; target: e.g. "cuda:sm_90"."""
    sentences = []
    most_us = ON_HOST_US if Target.parse(target).on_host else ON_DEVICE_US
    if (missed := _missed(goal, called)) is not None:
        reached = (
            "" if _missed(goal, alone) is not None else ", although the kernel alone reached it"
        )
        sentences.append(f"The goal {goal} is missed as a user calls it{reached}: {missed}.")
    value = fitness(called)
    if value is not None and value < 1:
        sentences.append(
            f"As called, the package is slower than the strongest baselines: {value:.2f}x."
        )
    before = {case.name: case for case in alone}
    for case in called:
        kernel = before.get(case.name)
        if kernel is not None and (loss := _lost(case, kernel, most_us)):
            sentences.append(loss)
        if case.protected and case.verdict == "slower" and case.speedup is not None:
            had = (
                f"; the kernel alone: {kernel.speedup:.2f}x"
                if kernel is not None and kernel.speedup is not None
                else ""
            )
            sentences.append(
                f"The protected case {case.name} is slower as called: {case.speedup:.2f}x over "
                f"{case.baseline}{had}."
            )
    return tuple(sentences)


def dispatch(cases: Iterable[CaseResult]) -> str:
    """Return the microseconds a package takes to find its kernel: "small 4.2, large 4.4"; "" where
    they were not measured."""
    return ", ".join(f"{c.name} {c.dispatch_us:.1f}" for c in cases if c.dispatch_us)


def _lost(called: CaseResult, alone: CaseResult, most_us: float) -> str:
    """A sentence if finding the kernel takes away the kernel's gain, or takes too long; "" if not,
    or not measured."""
    if called.dispatch_us is None or called.speedup is None or alone.speedup is None:
        return ""
    eaten = (
        alone.speedup > 1
        and called.speedup - 1 < KEPT * (alone.speedup - 1)
        and called.verdict != "faster"
    )
    if not eaten and called.dispatch_us <= most_us:
        return ""
    return (
        f"Case {called.name}: {called.speedup:.2f}x as called, {alone.speedup:.2f}x alone; finding "
        f"the kernel takes {called.dispatch_us:.1f} us per call with warm caches, several times "
        f"that with cold ones. {REMEDY}"
    )


def _missed(goal: Goal, cases: Sequence[CaseResult]) -> str | None:
    """The figure measured instead of the goal; None where it is reached, or the goal has no
    figure."""
    seen, value = figures(cases), fitness(cases)
    if goal.kind == "speedup" and (value is None or value < goal.value):
        return "nothing was timed" if value is None else times(value)
    if goal.kind == "latency_us" and (seen.latency_us is None or seen.latency_us > goal.value):
        return (
            "nothing was timed"
            if seen.latency_us is None
            else f"{latency(seen.latency_us)} (weighted mean)"
        )
    if goal.kind == "roofline" and (
        seen.roofline_fraction is None or seen.roofline_fraction < goal.value
    ):
        return (
            "nothing was timed"
            if seen.roofline_fraction is None
            else f"{share(seen.roofline_fraction)} of the ceiling in the worst case"
        )
    return None
