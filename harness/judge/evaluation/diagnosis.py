"""Turns figures into findings: what limits the kernel, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...types import Case, CaseResult, Ceilings, Signal
from ..device import roofline
from ..timing import causes

NEAR, BOUND = 0.75, 0.4  # shares of a ceiling that count as reached, and as limiting the time
# cost of a minor fault (measured: 0.1-0.25 us on several machines)
FAULT_US = 0.1
LAUNCH_US = 5.0
NOTED_FLOOR = 0.2  # share of a call's time above which that of an empty call is mentioned
WARMER = 0.8  # share of a call's time below which the time with warm caches is mentioned
ISSUED = 0.8  # share of a call's time that issuing takes if the host limits it
# shares of own kernels in a call below which the rest is mentioned, and is the first suspect
NOTED_SHARE, LOW_SHARE = 0.85, 0.5
AROUND = "what is around the kernels does, most of all where caches are cold"
# the parts of a call's time that neither bytes nor operations explain, and what they tell
EMPTY_CALL = "the evaluator's own part, which both sides' figures include, so little can be gained"
COLD = (
    "data, pages and code that are not in the caches: touch fewer lines and pages, prefetch, keep "
    "what runs short"
)
WARM = "instructions, dependencies or extra passes"
NARROWER = "products of narrower types, where they are exact enough, are not bound by that of {}"


@dataclass(frozen=True)
class MeasuredCase:
    """A case's result with what else the diagnosis needs."""

    case: Case
    result: CaseResult
    working_set: int
    noise: str = ""  # why its interval may be wide


def diagnose(
    cases: Sequence[MeasuredCase],
    ceilings: Ceilings,
    static: Sequence[Signal],
    *,
    briefly: bool = False,
) -> tuple[Signal, ...]:
    """Return signals, the most important first. The heaviest case (longest time) decides what
    limits the kernel. briefly: timing stopped after one or two pairs of processes, so wide
    intervals do not tell about the machine."""
    timed = [m for m in cases if m.result.latency_us is not None]
    if not timed:
        return tuple(static)
    heavy = max(timed, key=lambda m: (m.result.latency_us or 0.0) * max(m.result.weight, 1e-9))
    signals = [*_verdicts(timed, briefly=briefly), _bound(heavy, ceilings)]
    if any(s.name in ("memory_bound", "compute_bound", "latency_bound") for s in signals):
        signals += static
    signals += _memory_habits(heavy)
    return tuple({s.name: s for s in reversed(signals)}.values())[::-1]


def _verdicts(timed: Sequence[MeasuredCase], *, briefly: bool) -> list[Signal]:
    signals = []
    slower = [m.result for m in timed if m.result.verdict == "slower"]
    if slower:
        text = ", ".join(f"{r.name} {r.speedup:.2f}x" for r in slower)
        signals.append(
            Signal("slower_than_baseline", f"slower than the strongest baseline in: {text}")
        )
    broken = [
        m.result
        for m in timed
        if m.result.protected and m.result.interval and m.result.interval[1] < 1
    ]
    if broken:
        signals.append(
            Signal(
                "protected_regression", f"protected cases lose: {', '.join(r.name for r in broken)}"
            )
        )
    noisy = [
        m
        for m in timed
        if m.result.interval and m.result.interval[1] / m.result.interval[0] > causes.WIDE
    ]
    if noisy and not briefly:
        text = ". ".join(m.result.name + (f": {m.noise}" if m.noise else "") for m in noisy)
        signals.append(Signal("noisy_timing", f"wide intervals. {text}"))
    return signals


def _bound(m: MeasuredCase, ceilings: Ceilings) -> Signal:
    latency = m.result.latency_us or 1.0
    # a time that either side has reached cannot exceed a ceiling: that was measured too low
    reached = min([latency, *m.result.baselines.values()])
    moving = min(roofline.memory_us(m.case, ceilings, m.working_set), reached)
    memory, compute = (
        moving / latency,
        min(roofline.compute_us(m.case, ceilings), reached) / latency,
    )
    rate, operations = m.case.bytes_min / latency / 1e3, m.case.operations / latency / 1e3
    evidence = {
        "latency_us": latency,
        "achieved_gb_s": rate,
        "achieved_gop_s": operations,
        "memory_fraction": memory,
        "compute_fraction": compute,
    }
    dtype = roofline.computed_in(m.case, ceilings)
    text = (
        f"case {m.case.name}: {latency:.1f} us, {rate:.1f} GB/s = {memory:.0%} of the memory "
        f"ceiling ({m.case.bytes_min / max(moving, 1e-9) / 1e3:.1f} GB/s with "
        f"{roofline.moved_between(m.case, ceilings, m.working_set)}), {operations:.1f} Gop/s = "
        f"{compute:.0%} of the arithmetic ceiling ({dtype})"
    )
    if (warm := m.result.warm_us) and warm < WARMER * latency:
        text += f"; {warm:.1f} us with warm caches"
    share = m.result.own_kernel_fraction
    if share is not None and share < NOTED_SHARE:
        text += (
            f"; own kernels take {share:.0%} of a call, the rest is Python, allocation and "
            "conversions around them"
        )
    if latency < LAUNCH_US and max(memory, compute) < NEAR:
        return Signal("launch_bound", f"{text}; the overhead of the call dominates", evidence)
    if max(memory, compute) >= NEAR:
        if compute > memory:
            text += f"; {NARROWER.format(dtype)}"
        return Signal("near_roofline", text, evidence)
    # an empty call moves nothing and computes nothing
    empty = min(m.result.nothing_us or 0.0, latency)
    limiting = BOUND * (latency - empty) / latency
    if empty > NOTED_FLOOR * latency:
        text += f"; an empty call takes {empty:.1f} us of the {latency:.1f} us"
        evidence["empty_call_us"] = empty
    if memory >= limiting and memory >= compute:
        return Signal("memory_bound", text, evidence)
    if compute >= limiting:
        return Signal("compute_bound", text, evidence)
    # metered with recording of the framework's calls, so it only tells where to look
    issued = (m.result.launch_us or 0.0) > ISSUED * latency  # a device may hide the issuing time
    if share is not None and share < LOW_SHARE and issued:
        return Signal("launch_bound", f"{text}; neither explains the time: {AROUND}", evidence)
    return Signal(
        "latency_bound",
        f"{text}; neither explains the time: {_unexplained(m.result, latency, empty)}",
        evidence,
    )


def _unexplained(result: CaseResult, latency: float, empty: float) -> str:
    """What takes the time of a call that neither bytes nor operations explain: its largest part.
    Without a time with warm caches only instructions can be named."""
    if not result.warm_us:
        return f"{WARM} do"
    warm = min(result.warm_us, latency - empty)
    parts = {EMPTY_CALL: empty, COLD: latency - empty - warm, WARM: warm}
    what, part = max(parts.items(), key=lambda each: each[1])
    return f"the largest part, {part:.1f} us, is {what}"


def _memory_habits(m: MeasuredCase) -> list[Signal]:
    latency, faults = m.result.latency_us or 1.0, m.result.page_faults or 0.0
    signals = []
    if faults * FAULT_US > 0.2 * latency and faults > 4:
        signals.append(
            Signal(
                "allocation_bound",
                f"case {m.case.name}: {faults:.0f} page faults per call, about "
                f"{faults * FAULT_US:.0f} us",
                {"faults": faults},
            )
        )
    elif faults > 4:
        signals.append(
            Signal(
                "page_faults",
                f"case {m.case.name}: {faults:.0f} page faults per call",
                {"faults": faults},
            )
        )
    return signals
